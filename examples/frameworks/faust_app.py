"""Faust: start it with ``python faust_app.py worker --without-web``."""

import os

import faust

app = faust.App(
    os.environ["GROUP"],
    broker=f"kafka://{os.environ['BROKER']}",
    topic_disable_leader=True,
    datadir=f"/tmp/faust-{os.environ['REPLICA']}",
    consumer_auto_offset_reset="earliest",
)
orders = app.topic(os.environ["TOPIC"], value_serializer="raw")
done = app.topic(os.environ["OUTPUT"], value_serializer="raw")


@app.agent(orders)
async def handle(values: faust.Stream) -> None:
    """One output for each order."""
    async for value in values:
        await done.send(value=value)


if __name__ == "__main__":
    app.main()
