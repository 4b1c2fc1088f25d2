"""Services as users write them, one per client and shape, each sound or with a fault that is planted in it.

Each takes broker, group, topic, output topic and fault, writes an output for each record, and commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_assignors.integration.scenario import SCENARIOS
from kafka_assignors.integration.scenario.actions import Join, Resume
from kafka_assignors.integration.scenario.catalogue import Step

from . import anew, buffering, by_batch, in_threads, on_a_timer, with_state

SOUND = "none"
"""In place of a fault: the twin without it."""
AIOKAFKA = "aiokafka"
CLIENTS = ("kafka-python", "confluent-kafka", AIOKAFKA)


@dataclass(frozen=True)
class Fault:
    """A fault, and what names it.

    Args:
        programs: Client -> the service that has it; none for a client with which it can't be made.
        does: What the service does, for the page.
        found_by: The law that it breaks.
        unknown: Words of the reason why the verdict is unknown, of a fault that breaks no law.
        also: The law that it breaks instead, as its moment may have it.
        otherwise: Client -> the law, where it is another one.
        untold: Why it can't be made with the client that `programs` lacks.
        scenario: The one that is played.
        steps: What is played of it; if not given, all.
        exactly_once: Whether the service promises one output per record.
        timeout_s: Limit of each step, and of the wait for its commits.
    """

    programs: Mapping[str, str]
    does: str
    found_by: str = ""
    also: str = ""
    unknown: str = ""
    otherwise: Mapping[str, str] = field(default_factory=dict)
    untold: str = ""
    scenario: str = "churn"
    steps: tuple[Step, ...] = ()
    exactly_once: bool = False
    timeout_s: float = 90


_AMONG_MORE = (
    *SCENARIOS["pause"].steps[:2],
    Step("three more join", (Join("m4"), Join("m5"), Join("m6"))),
    Step("m2 resumes", (Resume("m2"),)),
)
"""The paused process gets one partition, so not both of its own back: what it commits of the other one is seen."""
_LOSSLESS = {client: program for client, program in buffering.PROGRAMS.items() if client != AIOKAFKA}

FAULTS: Mapping[str, Fault] = {
    by_batch.EARLY: Fault(by_batch.PROGRAMS, "commits what it has read, then works on it", "X3"),
    by_batch.BY_ITSELF: Fault(by_batch.PROGRAMS, "auto-commit; a pool works on what was read", "X3"),
    by_batch.IN_FLIGHT: Fault(by_batch.PROGRAMS, "on SIGTERM it leaves its batch, and commits it", "X1"),
    by_batch.LATE_OUTPUTS: Fault(
        by_batch.PROGRAMS, "commits, then works and sends the outputs", "X3",
        timeout_s=240,  # it works twice on each record, at last alone
    ),
    by_batch.TWICE: Fault(
        by_batch.PROGRAMS, "sends an output a second time, as after an answer that came too late", "X1",
        scenario="hand-over", exactly_once=True,
    ),
    # C5: it goes back before its first read, which then begins where it has committed
    by_batch.SEEKS: Fault(
        by_batch.PROGRAMS, "begins its partitions from their beginning, while it owns them", "C2", also="C5",
    ),
    on_a_timer.UNCOMMITTED: Fault(
        on_a_timer.PROGRAMS, "commits every two seconds, and not when partitions are revoked", "X1",
        scenario="hand-over", exactly_once=True,
    ),
    buffering.KEEPS_ON: Fault(
        buffering.PROGRAMS, "collects records for a second, then works on them and commits them, also those of "
        "partitions that were revoked meanwhile", "C5", otherwise={AIOKAFKA: "E1"},
    ),
    buffering.IGNORES_LOSS: Fault(
        _LOSSLESS, "the same, and only its `on_partitions_lost` does nothing", "C5",
        scenario="pause", steps=_AMONG_MORE,
        untold="it tells a loss as a revoke",
    ),
    in_threads.SHARED: Fault(
        in_threads.PROGRAMS, "each thread polls, works and commits: the commit has what the other one works on", "X3",
    ),
    with_state.SWALLOWS: Fault(
        with_state.PROGRAMS, "commits metadata that become too long for the broker, in a `try` that passes",
        unknown="was refused: ", timeout_s=20,
    ),
    anew.UNCLOSED: Fault(
        anew.PROGRAMS, "after an error it makes another consumer, and does not close the first",
        unknown="a second consumer in the group while the first is open", steps=SCENARIOS["churn"].steps[:3],
        timeout_s=20,
    ),
}  # fmt: skip
"""Each fault of the table in the page of services."""

TWINS = (
    by_batch.TWICE, on_a_timer.UNCOMMITTED, buffering.KEEPS_ON, buffering.IGNORES_LOSS, in_threads.SHARED,
    with_state.SWALLOWS, anew.UNCLOSED,
)  # fmt: skip
"""One of each service, scenario and promise: the same without the fault is true. That of the other faults is played as
the sound service of `PROGRAMS`."""

CHANCY = ("confluent-kafka", buffering.IGNORES_LOSS)
"""Client and fault whose twin is true by chance: librdkafka may hand out what it fetched for an assignment that is lost
if the partition comes back at the next join (C2)."""

PROGRAMS = by_batch.PROGRAMS
"""Client -> the service that works on one batch after the other."""

BROKER_ASSIGNED = "confluent-kafka, `group.protocol=consumer`"
"""The same in a group in which the broker assigns, and sets the timeouts."""
PROGRAMS_OF_BROKER = {
    BROKER_ASSIGNED: PROGRAMS["confluent-kafka"]
    .replace('"session.timeout.ms": SESSION_MS,', '"group.protocol": "consumer",')
    .replace('"heartbeat.interval.ms": BEAT_MS, ', "")
}
