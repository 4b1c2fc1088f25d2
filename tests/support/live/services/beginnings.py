"""How the services begin: imports and settings, the same for each shape of one client."""

from __future__ import annotations

_ALL = """
import json, signal, sys, time

address, group, topic, output, fault = sys.argv[1:]
stop = []
SESSION_MS, BEAT_MS, BATCH = 10_000, 1000, 40

def end(*_):
    stop.append(1)
"""
_KAFKA_PYTHON = """
from kafka import AsyncConsumerRebalanceListener, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata
from kafka_assignors import RangeAssignor

signal.signal(signal.SIGTERM, end)
producer = KafkaProducer(bootstrap_servers=address)

def make():
    return KafkaConsumer(
        bootstrap_servers=address, group_id=group, auto_offset_reset="earliest", session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=BEAT_MS, enable_auto_commit=False, max_poll_records=BATCH,
        partition_assignment_strategy=[RangeAssignor()],
    )
"""
_CONFLUENT = """
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

signal.signal(signal.SIGTERM, end)
producer = Producer({"bootstrap.servers": address})

def make():
    return Consumer({
        "bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest",
        "session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": BEAT_MS, "enable.auto.commit": False,
    })
"""
_AIOKAFKA = """
import asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener
from aiokafka.errors import CommitFailedError, KafkaError

async def make():
    consumer = AIOKafkaConsumer(
        bootstrap_servers=address, group_id=group, auto_offset_reset="earliest", session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=BEAT_MS, enable_auto_commit=False,
    )
    await consumer.start()
    return consumer

async def begin():
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    producer = AIOKafkaProducer(bootstrap_servers=address)
    await producer.start()
    return producer
"""
BEGINNINGS = {"kafka-python": _ALL + _KAFKA_PYTHON, "confluent-kafka": _ALL + _CONFLUENT, "aiokafka": _ALL + _AIOKAFKA}
"""Client -> the first lines of its services."""
