"""Assignors on a workload, in their own process: ``python -m benchmarks.assign_call '{...}' …``.

A separate process, because a peer may not terminate, or may use all memory. Prints one JSON line per call, in order.
"""

from __future__ import annotations

import gc
import json
import logging
import resource
import signal
import subprocess
import sys
import tempfile
import time
import tracemalloc
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.wire.protocol import Subscription as OurSubscription
from kafka_assignors.core.wire.protocol import decode_assignment, encode_subscription
from kafka_assignors.core.wire.userdata import encode_cooperative, encode_sticky
from kafka_assignors.errors import MachineError

from . import peers
from .clusters import cluster
from .workloads import GENERATION, Workload, make

MEMORY_BYTES = 6 * 2**30
REPLICAS = 3
"""Where there are racks; else one."""


@dataclass(frozen=True)
class Call:
    """The measurement of one assignor on one workload.

    Args:
        workload: Its name.
        strategy: ``sticky``, ``cooperative-sticky``, ``range`` or ``roundrobin``.
        client: ``ours``, ``kafka-python``, ``aiokafka``, ``java`` or ``franz-go``.
        wire: Whether to measure from members' bytes to assignments' bytes, as a leader does; else from decoded
            subscriptions to assignment objects (only ours and kafka-python's).
        limit_s: Time limit of a call, seconds.
        budget_s: Calls are repeated for this many seconds, at least once.
        options: Of our assignor.
        encode: Whether kafka-python's assignments are encoded too, if `wire` is not set; ours are bytes anyway.
    """

    workload: str
    strategy: str
    client: str
    wire: bool
    limit_s: float
    budget_s: float
    options: dict[str, Any] = field(default_factory=dict)
    encode: bool = False

    def to_json(self) -> str:
        """The argument of the process."""
        return json.dumps(asdict(self))


@dataclass
class _Joined:
    """The fields of kafka-python's JoinGroupResponseMember that assignors use."""

    member_id: str
    metadata: Any
    group_instance_id: str | None = None


def assignor(strategy: str, client: str, options: dict[str, Any]) -> Any:
    """A new assignor of a Python client; `options` are for ours."""
    if client == "ours":
        from kafka_assignors.clients.kafka_python import assignor as by_name

        return by_name(strategy)(**options)
    if client == "aiokafka":
        from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as Aiokafkas

        return Aiokafkas()
    if strategy == "sticky":
        from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

        return StickyPartitionAssignor()
    if strategy == "cooperative-sticky":
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

        return CooperativeStickyAssignor()
    if strategy == "range":
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        return RangePartitionAssignor()
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    return RoundRobinPartitionAssignor()


def prepare(workload: Workload) -> None:
    """Import what a member imports on a thread before it leads (`kafka_assignors.clients.kafka_python.preload`)."""
    import_module("kafka_assignors.core.reading")
    if workload.racks:
        import_module("kafka_assignors.core.sticky.maxflow").load()


# Calls of one process come by workload and strategy: what they have in common is made once.
_made = lru_cache(maxsize=1)(make)
_cluster = lru_cache(maxsize=1)(lambda name: cluster(_made(name).topics, _made(name).racks, _replicas(name)))


def _replicas(name: str) -> int:
    return REPLICAS if _made(name).racks else 1


@lru_cache(maxsize=1)
def sent(name: str, strategy: str, client: str) -> list[tuple[str, bytes]]:
    """Member ids and subscription bytes, with the claims that the assignor would send.

    Args:
        name: The workload.
        strategy: As `Call.strategy`.
        client: ``kafka-python``, or any other.
    """
    workload = _made(name)
    # Only kafka-python 3.0 puts a version before its sticky user data, and it reads no other format.
    header = b"\0\1" if client == "kafka-python" else b""
    members = []
    everybody = zip(workload.members, workload.subscriptions, workload.owned, strict=True)
    for number, (member, topics, owned) in enumerate(everybody):
        owned_partitions = [TopicPartition(topic, p) for topic, partitions in owned.items() for p in partitions]
        generation = GENERATION if owned_partitions else -1
        data: bytes | None = None
        still: tuple[TopicPartition, ...] = ()
        if strategy == "sticky" and owned_partitions:
            data = header + encode_sticky(owned_partitions, GENERATION)
        elif strategy == "cooperative-sticky":
            data, still = encode_cooperative(generation), tuple(owned_partitions)
        rack = f"rack{number % workload.racks}" if workload.racks else None
        members.append((member, encode_subscription(OurSubscription(tuple(topics), data, still, generation, rack))))
    return members


def once(call: Call, chooser: Any, metadata: Any, members: list[_Joined]) -> dict[str, Any]:
    """The measured call: the leader's work in a join. The assignor exists before, as in a consumer."""
    if call.client == "aiokafka":
        from aiokafka.coordinator.protocol import ConsumerProtocol

        decoded = {m.member_id: ConsumerProtocol.METADATA.decode(m.metadata) for m in members}
        return {member: given.encode() for member, given in chooser.assign(metadata, decoded).items()}
    if call.wire and call.client != "ours":  # ours takes the bytes
        members = [_Joined(m.member_id, ConsumerProtocolSubscription.decode(m.metadata)) for m in members]
    answer: dict[str, Any] = chooser.assign(metadata, members)
    return {member: given.encode() for member, given in answer.items()} if call.wire or call.encode else answer


def judged(workload: Workload, answer: dict[str, Any], cooperative: bool) -> dict[str, int]:
    """The quality of an assignment: partitions that left their holder, the sum of squared loads, and uneven topics.

    A topic is uneven if two of its subscribers have numbers of its partitions that differ by more than one.

    Raises:
        ValueError: A partition has two members, or none, unless a cooperative assignment withholds it because it moves.
    """
    sizes = list(workload.topics.values())
    first = dict(zip(workload.topics, np.cumsum([0, *sizes[:-1]]).tolist(), strict=True))
    number = {member: n for n, member in enumerate(workload.members)}
    after = np.full(len(workload.owner), -1, np.int32)
    for member, given in answer.items():
        given = decode_assignment(given).partitions.items() if isinstance(given, bytes) else given.assigned_partitions
        for topic, partitions in given:
            at = np.asarray(partitions, np.int64) + first[topic]
            if (after[at] >= 0).any():
                raise ValueError(f"partitions of {topic} were assigned to two members")
            after[at] = number[member]
    lost = int(((after < 0) & (workload.owner < 0 if cooperative else True)).sum())
    if lost:
        raise ValueError(f"{lost} partitions were assigned to no member")
    moves = int(((workload.owner >= 0) & (after != workload.owner)).sum())
    if cooperative:
        return {"moves": moves}
    topic = np.repeat(np.arange(len(sizes)), sizes)
    shape = len(sizes), len(number)
    shares = np.bincount(topic * shape[1] + after, minlength=shape[0] * shape[1]).reshape(shape)
    order = {name: n for n, name in enumerate(workload.topics)}
    reads = np.zeros(shape, bool)
    for n, topics in enumerate(workload.subscriptions):
        reads[[order[name] for name in topics], n] = True
    fewest, most = np.where(reads, shares, np.iinfo(np.int64).max).min(1), np.where(reads, shares, 0).max(1)
    return {"moves": moves, "squares": int((shares.sum(0) ** 2).sum()), "uneven": int((most > fewest + 1).sum())}


def measure(call: Call) -> dict[str, Any]:
    """CPU and wall milliseconds of each call, and the quality of the first assignment; memory for ours."""
    workload = _made(call.workload)
    cooperative = call.strategy == "cooperative-sticky"
    data = sent(call.workload, call.strategy, "kafka-python" if call.client == "kafka-python" else "others")
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    if call.client in ("java", "franz-go"):
        resource.setrlimit(resource.RLIMIT_AS, (most, most))  # a JVM reserves more than it uses
        return _elsewhere(call, workload, _replicas(call.workload), data)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, most))
    metadata = _cluster(call.workload)
    if call.client == "ours":
        prepare(workload)
    figures: dict[str, Any] = {"cpu_ms": [], "wall_ms": []}
    spent = 0.0
    # The first call of ours imports what only some groups need: the later half must be without it.
    least = 4 if call.client == "ours" else 1
    while len(figures["cpu_ms"]) < least or spent < call.budget_s:
        members = _joined(call, data)
        chooser = assignor(call.strategy, call.client, call.options)
        signal.setitimer(signal.ITIMER_REAL, call.limit_s)
        began, wall = time.thread_time(), time.perf_counter()
        try:
            answer = once(call, chooser, metadata, members)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        figures["cpu_ms"].append(round((time.thread_time() - began) * 1000, 4))
        figures["wall_ms"].append(round((time.perf_counter() - wall) * 1000, 4))
        spent += figures["wall_ms"][-1] / 1000
        if "moves" not in figures:
            figures.update(judged(workload, answer, cooperative))
        del answer
    if call.client == "ours":
        figures["peak_mb"] = _peak_mb(call, metadata, _joined(call, data))
    return figures


def _joined(call: Call, data: list[tuple[str, bytes]]) -> list[_Joined]:
    """New members for one call, because some assignors change them."""
    return [
        _Joined(m, subscription if call.wire else ConsumerProtocolSubscription.decode(subscription))
        for m, subscription in data
    ]


def _peak_mb(call: Call, metadata: Any, members: list[_Joined]) -> float:
    """Peak memory of Python and NumPy during a call, minus the memory in use before it, in MB."""
    chooser = assignor(call.strategy, call.client, call.options)
    gc.collect()
    tracemalloc.start()
    once(call, chooser, metadata, members)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return round(peak / 2**20, 1)


def _elsewhere(call: Call, workload: Workload, replicas: int, data: list[tuple[str, bytes]]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        case, answer = Path(folder) / "case", Path(folder) / "answer"
        command = peers.command(call.client, call.strategy, case, answer, call.limit_s, call.budget_s)
        peers.write_case(case, workload.racks, replicas, workload.topics, data)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not done.stdout:
            raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
        figures: dict[str, Any] = json.loads(done.stdout)
        if "error" not in figures:
            figures.update(judged(workload, dict(peers.read_answer(answer)), call.strategy == "cooperative-sticky"))
    return figures


def _give_up(_signal: int, _frame: object) -> None:
    raise TimeoutError


def main() -> None:
    """Run the measurements that the arguments describe."""
    logging.disable(logging.CRITICAL)  # logging of the assignors is not measured
    signal.signal(signal.SIGALRM, _give_up)
    for text in sys.argv[1:]:
        print(json.dumps(_said(Call(**json.loads(text)))), flush=True)


def _said(call: Call) -> dict[str, Any]:
    try:
        return measure(call)
    except TimeoutError:
        return {"error": f"no result in {call.limit_s:g} s"}
    except MemoryError:
        return {"error": f"no result in {MEMORY_BYTES >> 30} GB"}
    except (peers.NotMeasured, MachineError) as lacking:
        return {"error": f"not measured: {lacking}"}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
