"""Quix Streams. Each process has a folder of its own for its state, as each pod has."""

import os

from quixstreams import Application

app = Application(
    broker_address=os.environ["BROKER"],
    consumer_group=os.environ["GROUP"],
    auto_offset_reset="earliest",
    state_dir=f"/tmp/quix-{os.environ['REPLICA']}",
)
orders = app.dataframe(app.topic(os.environ["TOPIC"], value_deserializer="json"))
orders.to_topic(app.topic(os.environ["OUTPUT"], value_serializer="json"))
app.run()
