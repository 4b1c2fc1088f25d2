"""confluent-kafka's asyncio clients: poll and send at their defaults, without awaiting each delivery."""

import asyncio
import os
import signal

from confluent_kafka.aio import AIOConsumer, AIOProducer


async def main() -> None:
    """One output for each order, until SIGTERM."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    producer = AIOProducer({"bootstrap.servers": os.environ["BROKER"]})
    consumer = AIOConsumer(
        {"bootstrap.servers": os.environ["BROKER"], "group.id": os.environ["GROUP"], "auto.offset.reset": "earliest"}
    )
    await consumer.subscribe([os.environ["TOPIC"]])
    while not stopping.is_set():
        message = await consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            print(f"Consumer error: {message.error()}")
            continue
        await producer.produce(os.environ["OUTPUT"], value=message.value())
    await consumer.close()
    await producer.close()


asyncio.run(main())
