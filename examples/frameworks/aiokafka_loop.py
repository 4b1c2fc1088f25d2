"""aiokafka: a loop as in its documentation, at its defaults."""

import asyncio
import os
import signal

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def main() -> None:
    """One output for each order, until SIGTERM."""
    producer = AIOKafkaProducer(bootstrap_servers=os.environ["BROKER"])
    consumer = AIOKafkaConsumer(
        os.environ["TOPIC"],
        bootstrap_servers=os.environ["BROKER"],
        group_id=os.environ["GROUP"],
        auto_offset_reset="earliest",
    )
    stopping = []
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: stopping.append(asyncio.create_task(consumer.stop())))
    await producer.start()
    await consumer.start()
    async for message in consumer:  # ends when the consumer stops
        await producer.send_and_wait(os.environ["OUTPUT"], message.value)
    await asyncio.gather(*stopping)
    await producer.stop()


asyncio.run(main())
