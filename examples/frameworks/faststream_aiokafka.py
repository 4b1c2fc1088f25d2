"""FastStream on aiokafka: start it with ``faststream run faststream_aiokafka:app``."""

import os

from faststream import FastStream
from faststream.kafka import KafkaBroker

broker = KafkaBroker(os.environ["BROKER"])
app = FastStream(broker)


@broker.publisher(os.environ["OUTPUT"])
@broker.subscriber(os.environ["TOPIC"], group_id=os.environ["GROUP"], auto_offset_reset="earliest")
async def handle(order: dict) -> dict:
    """One output for each order."""
    return order
