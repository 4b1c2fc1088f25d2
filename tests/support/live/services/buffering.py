"""A service that keeps records for a second, writes their outputs together, and commits what it has written."""

from __future__ import annotations

from .beginnings import BEGINNINGS

KEEPS_ON = "keeps on after a revoke"
IGNORES_LOSS = "ignores a loss"

_KEEPS = """
kept, done = {}, {}  # partition -> records to write; partition -> what to commit of those that are written

def forget(partitions):
    for partition in partitions:
        kept.pop(partition, None)
        done.pop(partition, None)
"""

_KAFKA_PYTHON = """
consumer, due = make(), 0.0

def write(partitions):
    for partition in partitions:
        for record in kept.pop(partition, ()):
            producer.send(output, record.value)
            done[partition] = OffsetAndMetadata(record.offset + 1, "", -1)
    producer.flush()

class Writes(AsyncConsumerRebalanceListener):
    async def on_partitions_revoked(self, revoked):
        if fault == "keeps on after a revoke":
            return
        write(revoked)
        try:
            if done:
                await consumer.commit_async(dict(done))
        except KafkaError:
            pass
        forget(revoked)
    async def on_partitions_lost(self, lost):
        if fault != "ignores a loss":
            forget(lost)
    async def on_partitions_assigned(self, assigned):
        pass

consumer.subscribe([topic], listener=Writes())
while not stop:
    for partition, records in consumer.poll(timeout_ms=200).items():
        kept.setdefault(partition, []).extend(records)
    if time.monotonic() > due:
        due = time.monotonic() + 1
        write(list(kept))
        try:
            if done:
                consumer.commit(dict(done))
            done.clear()
        except KafkaError:
            pass  # a rebalance: what is still owned is committed with the next ones
consumer.close()  # revokes
producer.close()
"""

_CONFLUENT = """
consumer, due = make(), 0.0

def write(partitions):
    for partition in partitions:
        for message in kept.pop(partition, ()):
            producer.produce(output, message.value())
            done[partition] = message.offset() + 1
    producer.flush()

def commit():
    if not done:
        return
    try:
        consumer.commit(offsets=[TopicPartition(topic, *place) for place in done.items()], asynchronous=False)
    except KafkaException:
        return  # a rebalance: what is still owned is committed with the next ones
    done.clear()

def on_revoke(_, revoked):
    if fault == "keeps on after a revoke":
        return
    partitions = [tp.partition for tp in revoked]
    write(partitions)
    commit()
    forget(partitions)

def on_lost(_, lost):
    if fault != "ignores a loss":
        forget(tp.partition for tp in lost)

consumer.subscribe([topic], on_revoke=on_revoke, on_lost=on_lost)
while not stop:
    for message in consumer.consume(BATCH, 0.2):
        if message.error() is None:
            kept.setdefault(message.partition(), []).append(message)
    if time.monotonic() > due:
        due = time.monotonic() + 1
        write(list(kept))
        commit()
consumer.close()  # revokes
producer.flush()
"""

_AIOKAFKA = """
class Writes(ConsumerRebalanceListener):
    def __init__(self, busy, write, commit):
        self.busy, self.write, self.commit = busy, write, commit
    async def on_partitions_revoked(self, revoked):
        if fault == "keeps on after a revoke":
            return
        async with self.busy:
            await self.write(revoked)
            await self.commit()
            forget(revoked)
    async def on_partitions_assigned(self, assigned):
        pass

async def main():
    busy, due, producer, consumer = asyncio.Lock(), 0.0, await begin(), await make()

    async def write(partitions):
        for partition in partitions:
            for record in kept.pop(partition, ()):
                await producer.send_and_wait(output, record.value)
                done[partition] = record.offset + 1

    async def commit():
        try:
            if done:
                await consumer.commit(dict(done))
            done.clear()
        except CommitFailedError:
            pass  # a rebalance: what is still owned is committed with the next ones

    consumer.subscribe([topic], listener=Writes(busy, write, commit))
    while not stop:
        polled = await consumer.getmany(timeout_ms=200, max_records=BATCH)
        async with busy:
            for partition, records in polled.items():
                kept.setdefault(partition, []).extend(records)
            if time.monotonic() > due:
                due = time.monotonic() + 1
                await write(list(kept))
                await commit()
    if fault != "keeps on after a revoke":
        await write(list(kept))
        await commit()  # a consumer that is stopped calls no listener
    await consumer.stop()
    await producer.stop()

asyncio.run(main())
"""

PROGRAMS = {
    client: BEGINNINGS[client] + _KEEPS + program
    for client, program in (("kafka-python", _KAFKA_PYTHON), ("confluent-kafka", _CONFLUENT), ("aiokafka", _AIOKAFKA))
}
"""Client -> the service's program."""
