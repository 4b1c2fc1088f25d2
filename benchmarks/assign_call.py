"""One assignor on one workload, in a process of its own: ``python -m benchmarks.assign_call '{...}'``.

A process, because a peer may not come to an end, and because it may take all memory. Prints one JSON line.
"""

from __future__ import annotations

import json
import logging
import resource
import signal
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from kafka_assignors.core.userdata import encode_sticky

from .clusters import cluster
from .workloads import GENERATION, Workload, make

MEMORY_BYTES = 6 * 2**30


@dataclass(frozen=True)
class Call:
    """What to measure.

    Args:
        workload: Its name.
        strategy: ``sticky``, ``range`` or ``roundrobin``.
        ours: Our class, else kafka-python's.
        wire: From the members' bytes to the assignments' bytes, as a leader has to; else from decoded subscriptions to
            assignment objects.
        limit_s: A call that takes longer is given up.
        budget_s: Calls are repeated until this is spent, at least once.
    """

    workload: str
    strategy: str
    ours: bool
    wire: bool
    limit_s: float
    budget_s: float

    def to_json(self) -> str:
        """As the process takes it."""
        return json.dumps(asdict(self))


@dataclass
class _Joined:
    """What assignors use of kafka-python's JoinGroupResponseMember."""

    member_id: str
    metadata: Any
    group_instance_id: str | None = None


def assignor(strategy: str, ours: bool) -> Any:
    """A fresh assignor."""
    if ours:
        from kafka_assignors.kafka_python import assignor as by_name

        return by_name(strategy)()
    if strategy == "sticky":
        from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

        return StickyPartitionAssignor()
    if strategy == "range":
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        return RangePartitionAssignor()
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    return RoundRobinPartitionAssignor()


def joined(workload: Workload, call: Call) -> list[_Joined]:
    """The members, each with the user data that the assignor itself would have sent."""
    # kafka-python 3.0 puts a version before its sticky user data, which no other client does, and reads nothing else.
    header = b"" if call.ours else b"\0\1"
    members = []
    for member, topics, owned in zip(workload.members, workload.subscriptions, workload.owned, strict=True):
        data = b""
        if call.strategy == "sticky" and owned:
            held = [(topic, p) for topic, partitions in owned.items() for p in partitions]
            data = header + encode_sticky(held, GENERATION)
        subscription = ConsumerProtocolSubscription(version=1, topics=topics, user_data=data, owned_partitions=[])
        members.append(_Joined(member, subscription.encode() if call.wire else subscription))
    return members


def once(call: Call, chooser: Any, metadata: Any, members: list[_Joined]) -> dict[str, Any]:
    """What is measured: what a leader does in a join. It made its assignor long before, with its consumer."""
    if call.wire and not call.ours:  # ours takes the bytes
        members = [_Joined(m.member_id, ConsumerProtocolSubscription.decode(m.metadata)) for m in members]
    answer: dict[str, Any] = chooser.assign(metadata, members)
    return {member: given.encode() for member, given in answer.items()} if call.wire else answer


def moves(workload: Workload, answer: dict[str, Any]) -> int:
    """Partitions that had a holder and got another one; every partition must have one."""
    before = {
        (t, p): m for m, owned in zip(workload.members, workload.owned, strict=True) for t in owned for p in owned[t]
    }
    after: dict[tuple[str, int], str] = {}
    for member, given in answer.items():
        decoded = ConsumerProtocolAssignment.decode(given) if isinstance(given, bytes) else given
        for topic, partitions in decoded.assigned_partitions:
            after.update({(topic, p): member for p in partitions})
    lost = sum(workload.topics.values()) - len(after)
    if lost:
        raise ValueError(f"{lost} partitions were assigned to nobody")
    return sum(after[tp] != member for tp, member in before.items())


def measure(call: Call) -> dict[str, Any]:
    """CPU milliseconds of each call, and the moves of the first."""
    workload = make(call.workload)
    metadata = cluster(workload.topics, workload.racks, replicas=3 if workload.racks else 1)
    said: dict[str, Any] = {"cpu_ms": [], "moves": None}
    spent = 0.0
    while not said["cpu_ms"] or spent < call.budget_s:
        members = joined(workload, call)  # decoded metadata is changed by some assignors
        chooser = assignor(call.strategy, call.ours)
        signal.setitimer(signal.ITIMER_REAL, call.limit_s)
        began, wall = time.thread_time(), time.perf_counter()
        try:
            answer = once(call, chooser, metadata, members)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        said["cpu_ms"].append(round((time.thread_time() - began) * 1000, 4))
        spent += time.perf_counter() - wall
        if said["moves"] is None:
            said["moves"] = moves(workload, answer)
        del answer
    return said


def _give_up(_signal: int, _frame: object) -> None:
    raise TimeoutError


def main() -> None:
    """Measure what the argument says."""
    call = Call(**json.loads(sys.argv[1]))
    logging.disable(logging.CRITICAL)  # what the assignors log is not what is measured
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGALRM, _give_up)
    try:
        said = measure(call)
    except TimeoutError:
        said = {"error": f"no result in {call.limit_s:g} s"}
    except MemoryError:
        said = {"error": f"no result in {MEMORY_BYTES >> 30} GB"}
    except Exception as error:
        said = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
