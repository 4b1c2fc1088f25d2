"""How long a static member takes to restart, and the memory of an idle member, beside kafka-python's assignors."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from kafka import KafkaAdminClient

from kafka_assignors.integration.broker import start_broker

from .result import Result

_ASSIGNORS = {
    "ours": {
        "cooperative-sticky": "kafka_assignors.clients.kafka_python:CooperativeStickyAssignor",
        "range": "kafka_assignors.clients.kafka_python:RangeAssignor",
    },
    "kafka-python": {
        "cooperative-sticky": "kafka.coordinator.assignors.cooperative_sticky:CooperativeStickyAssignor",
        "range": "kafka.coordinator.assignors.range:RangePartitionAssignor",
    },
}
_IDLE_S = 3

_MEMBER = """
import json, os, sys, threading, time
begun = float(sys.argv[1])
from importlib import import_module
from kafka import ConsumerRebalanceListener, KafkaConsumer
place, name = sys.argv[4].split(":")
assignor = getattr(import_module(place), name)

def stop():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    said["rss_mb"] = int(status["VmRSS"].split()[0]) / 1024
    said["numpy"], said["scipy"] = ("numpy" in sys.modules), ("scipy" in sys.modules)
    print(json.dumps(said), flush=True)
    os._exit(0)  # a static member does not leave its group

class Listener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked): pass
    def on_partitions_assigned(self, assigned):
        said.update(wall_s=time.time() - begun, cpu_s=time.process_time(), partitions=len(assigned),
                    before_numpy="numpy" not in sys.modules)
        idle = float(sys.argv[5])
        threading.Timer(idle, stop).start() if idle else stop()

said = {}
consumer = KafkaConsumer(
    bootstrap_servers=sys.argv[2], group_id=sys.argv[3], group_instance_id="i", session_timeout_ms=60_000,
    partition_assignment_strategy=[assignor],
)
consumer.subscribe(["restarts"], listener=Listener())
while True:
    consumer.poll(timeout_ms=30_000)
"""


def run(quick: bool) -> Iterator[Result]:
    """``restart/ASSIGNOR``: from the start of a process until its static member has its partitions; ``…/cpu``: its CPU.

    ``idle/ASSIGNOR``: resident memory, some seconds after the assignment. Ours and kafka-python's take turns.
    """
    runs = 3 if quick else 20
    with start_broker() as broker:
        with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
            admin.create_topics({"restarts": {"num_partitions": 12, "replication_factor": 1}})
            admin.wait_for_topics(["restarts"])
        for assignor in ("cooperative-sticky", "range"):
            raw: dict[str, list[dict[str, Any]]] = {"ours": [], "kafka-python": []}
            for who in raw:
                _member(broker.bootstrap, who, assignor, 0)  # the group's first generation
            for _ in range(runs):
                for who, starts in raw.items():
                    starts.append(_member(broker.bootstrap, who, assignor, 0))
            yield _result(f"restart/{assignor}", "wall_s", 1000, "ms wall", raw)
            yield _result(f"restart/{assignor}/cpu", "cpu_s", 1000, "ms CPU", raw)
            idle = {who: [_member(broker.bootstrap, who, assignor, _IDLE_S)] for who in raw}
            yield _result(f"idle/{assignor}", "rss_mb", 1, "MB", idle)


def _member(bootstrap: str, who: str, assignor: str, idle_s: float) -> dict[str, Any]:
    """Start a member and wait until it has its partitions; what it says then.

    It keeps compiled modules, as an installed package has them: compiling ours anew took more than importing them.
    """
    given = [f"{time.time()}", bootstrap, f"restart-{who}-{assignor}", _ASSIGNORS[who][assignor], f"{idle_s}"]
    done = subprocess.run(
        [sys.executable, "-c", _MEMBER, *given], capture_output=True, text=True, timeout=120, check=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    )  # fmt: skip
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def _result(name: str, key: str, factor: float, unit: str, raw: dict[str, list[dict[str, Any]]]) -> Result:
    ours, peer = (statistics.median(start[key] for start in raw[who]) * factor for who in ("ours", "kafka-python"))
    early = sum(not start["before_numpy"] for start in raw["ours"])
    note = f"NumPy imported before the assignment in {early} of {len(raw['ours'])} runs of ours"
    return Result(name, ours, unit, "kafka-python's assignor of that name", peer, note, raw)
