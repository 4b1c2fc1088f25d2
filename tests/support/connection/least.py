"""The least rights of everything that reaches a cluster; `docs/secured-clusters.md` has the same table.

`test_rights.py` and, where Spark starts, `test_commands.py` prove each line: with these rights it works, and without
any one of them an error names that one. The demo, with its rights, is in `tests/integration/commands/test_cli.py`.
"""

from __future__ import annotations

from kafka_assignors.connection import Right

PREFIX = "kafka-assignors-"
"""Of all names that a run makes on a broker that somebody else runs."""
SEE_TOPIC, READ_TOPIC, WRITE_TOPIC = (
    Right(operation, "Topic", "orders") for operation in ("Describe", "Read", "Write")
)
SEE_GROUP, READ_GROUP = Right("Describe", "Group", "owned"), Right("Read", "Group", "billing")
SEE_GROUPS = Right("Describe", "Group", PREFIX, prefixed=True)
READ_LOG = Right("Read", "Topic", "__consumer_offsets")
GROW = Right("Alter", "Topic", PREFIX, prefixed=True)
TRANSACT = Right("Write", "TransactionalId", PREFIX, prefixed=True)
MAKE_EVENTS, WRITE_EVENTS = (Right(operation, "Topic", "events") for operation in ("Create", "Write"))
PLAYED = (
    *(Right(operation, "Topic", PREFIX, prefixed=True) for operation in ("Create", "Read", "Write", "Delete")),
    *(Right(operation, "Group", PREFIX, prefixed=True) for operation in ("Read", "Delete")),
    READ_LOG,
)

NEEDED: dict[str, tuple[Right, ...]] = {
    "consumer with an assignor, kafka-python": (READ_TOPIC, READ_GROUP),
    "consumer with an assignor, aiokafka": (READ_TOPIC, READ_GROUP),
    "bridge for confluent-kafka": (READ_TOPIC, READ_GROUP),
    "producer with a partitioner, kafka-python": (WRITE_TOPIC,),
    "producer with a partitioner, confluent-kafka": (WRITE_TOPIC,),
    "producer with a partitioner, aiokafka": (WRITE_TOPIC,),
    "lag of a group, for a producer": (SEE_GROUP, SEE_TOPIC),
    "plan of a live group": (SEE_GROUP, SEE_TOPIC),
    "watch": (SEE_GROUP, SEE_TOPIC),
    "keys place": (SEE_TOPIC,),
    "keys audit": (READ_TOPIC,),
    "keys growth TOPIC": (READ_TOPIC,),
    "test": PLAYED,
    "test --events-topic": (*PLAYED, MAKE_EVENTS, WRITE_EVENTS),
    "test of a scenario that adds partitions": (*PLAYED, GROW),
    "test of a scenario with transactions": (*PLAYED, TRANSACT),
    "demo": PLAYED,
    "demo --events-topic": (*PLAYED, MAKE_EVENTS, WRITE_EVENTS),
    "report run": (READ_TOPIC,),
    "report run --group": (READ_TOPIC, READ_LOG, SEE_GROUPS),
    "report stream": (READ_TOPIC,),
}
"""What each takes; Kafka counts Read, Write and Delete as Describe too."""
