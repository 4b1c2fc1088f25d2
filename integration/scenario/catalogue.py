"""Scenarios as values: topics, then named steps of joins, leaves and kills. Nothing here runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from kafka_assignors.errors import UnknownName

from .actions import (
    Action,
    AddPartitions,
    CreateTopic,
    Cut,
    Delay,
    DeleteTopic,
    Drop,
    Heal,
    Join,
    Kill,
    KillNode,
    Leave,
    NetworkFault,
    Overwork,
    Pause,
    PauseAtWork,
    Reset,
    RestartNodes,
    RestoreNodes,
    Resume,
    Stall,
    StallAssign,
    Subscribe,
    UncleanElection,
    WaitEnd,
    WaitStalled,
    brings,
)

OUTPUT_PARTITIONS = 3


@dataclass(frozen=True)
class Step:
    """Actions taken together. The next step waits until the group is stable and passing network faults are over."""

    name: str
    actions: tuple[Action, ...]

    def members_after(self, before: frozenset[str]) -> frozenset[str]:
        """The members in the group after this step, given the members before it."""
        members = set(before)
        for action in self.actions:
            if (into := brings(action)) is not None:
                (members.add if into else members.discard)(action.member)  # type: ignore[union-attr]
        return frozenset(members)


@dataclass(frozen=True)
class Scenario:
    """A named course of events for one group.

    Args:
        rate_per_s: Records sent per second during the steps. With 0, the law against lost records has nothing to judge.
        heartbeat_interval_ms: How often members send heartbeats, and thus how soon they hear of a rebalance. Short by
            default, to save time; with Kafka's default law O4 can tell who waited for a heartbeat.
        output: Topic that gets one output per record: the members transform. None: they don't. Created for the run.
        require: Laws that must have been judged, or the verdict is unknown, unless a service is seen on its connections
            alone, which do not show what a law needs.
        lossy: Topics that may lose acknowledged records: two replicas each, and unclean election is allowed. All
            records are then sent with ``acks=1``, and these topics are read back at the end.
    """

    name: str
    about: str  # one sentence for the user
    steps: tuple[Step, ...]
    topics: Mapping[str, int] = field(default_factory=lambda: dict(DEMO_TOPICS))  # partition counts; made for the run
    assignors: tuple[str, ...] = ("cooperative-sticky",)  # assignors of the members that name none
    rate_per_s: int = 100
    gap_ms: int = 8000  # how long a topic-partition may be without an owner (law O4): a session, plus the time to join
    session_timeout_ms: int = 2000
    heartbeat_interval_ms: int = 300
    consumer: Mapping[str, Any] = field(default_factory=dict)  # settings of members' clients, by kafka-python's names
    output: str | None = None
    output_partitions: int = OUTPUT_PARTITIONS  # its partition count
    nodes: int = 1  # number of brokers needed; 1: any broker will do
    require: tuple[str, ...] = ()
    lossy: tuple[str, ...] = ()

    @property
    def made_topics(self) -> Mapping[str, int]:
        """All topics made before the first step: topic -> partition count."""
        return {**self.topics, **({} if self.output is None else {self.output: self.output_partitions})}

    @property
    def lasting_topics(self) -> frozenset[str]:
        """The topics that it does not delete. The others can't receive records until the end."""
        gone = {action.topic for step in self.steps for action in step.actions if isinstance(action, DeleteTopic)}
        return frozenset(self.topics) - gone

    @property
    def network_faults(self) -> bool:
        """Whether its members need a fault proxy."""
        return any(isinstance(action, NetworkFault) for step in self.steps for action in step.actions)


DEFAULT_BEAT_MS = 3000
"""Default of ``heartbeat.interval.ms`` in Kafka and in every client of classic groups."""
_SESSION_MS, _GAP_MS = 9000, 16_000
"""The shortest session for that heartbeat interval, and that session plus the time to join."""
_AS_BY_DEFAULT: Mapping[str, Any] = {
    "session_timeout_ms": 45_000, "heartbeat_interval_ms": DEFAULT_BEAT_MS, "gap_ms": _GAP_MS,
}  # fmt: skip
"""Times of members at their clients' defaults; they leave, so that no session has to end."""
STEP_S = 40.0
"""Default limit in seconds for a group to become stable after a step."""
DEMO_TOPICS: Mapping[str, int] = {"orders": 12, "payments": 6, "audit": 3}

CHURN = (
    Step("three members join", (Join("m1"), Join("m2"), Join("m3"))),
    Step("a fourth joins", (Join("m4"),)),
    Step("m2 leaves", (Leave("m2"),)),
    Step("m3 is killed", (Kill("m3"),)),
)

_SLOW = Join("m4", consumer={"app_work_ms": 6000, "max_poll_interval_ms": 2500})

_ROLLED = ("m1", "m2", "m3")


def _rolling(to: str, client: str = "kafka-python") -> tuple[Step, ...]:
    """Steps from range to another assignor in two bounces: members restart with both, then with the new one alone.

    `client` is the members' client at first; after a restart it is kafka-python.
    """
    join = Step("three members join with range", tuple(Join(m, ("range",), client=client) for m in _ROLLED))
    bounces = (((to, "range"), "both"), ((to,), f"{to} alone"))
    return (
        join,
        *(
            Step(f"{m} restarts with {what}", (Leave(m), Join(m, assignors)))
            for assignors, what in bounces
            for m in _ROLLED
        ),
    )


def _migrating() -> tuple[Step, ...]:
    """Steps from the classic to the consumer protocol (KIP-848) and back, one member after the other."""
    return (
        Step("three members join with the classic protocol", tuple(map(Join, _ROLLED))),
        *(
            step
            for protocol, back in (
                ("consumer", {"assignors": ("uniform",), "client": "confluent-consumer"}),
                ("classic", {}),
            )
            for m in _ROLLED
            for step in (
                Step(f"{m} leaves to change to the {protocol} protocol", (Leave(m),)),
                Step(f"{m} joins with the {protocol} protocol", (Join(m, **back),)),  # type: ignore[arg-type]
            )
        ),
    )


_ROLLED_FIVE = tuple(f"m{number}" for number in range(1, 6))
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
HAND_OVER_S = 20.0
"""How long a member that is replaced may hand its partitions over, in seconds."""
GRACE_S = 30.0
"""Default of ``terminationGracePeriodSeconds`` in Kubernetes: seconds from SIGTERM to SIGKILL."""
SIZES = (3, 8, 3)
"""The sizes of the group in ``scale``."""


def replacing(members: Sequence[str]) -> tuple[Step, ...]:
    """Members that are replaced one after the other, as a deployment does it: the new one joins, the old one leaves."""
    return (
        Step(f"{in_words(len(members))} join", tuple(map(Join, members))),
        *(
            step
            for m in members
            for step in (
                Step(f"the replacement of {m} joins", (Join(f"{m}-new"),)),
                Step(f"{m} leaves", (Leave(m, hand_over_s=HAND_OVER_S),)),
            )
        ),
    )


def scaling(sizes: Sequence[int], grace_s: float) -> Iterator[Step]:
    """A group that grows and shrinks from size to size, one member at a time; the last one to come goes first."""
    yield Step(f"{in_words(sizes[0])} join", tuple(Join(f"m{number}") for number in range(1, sizes[0] + 1)))
    for size, following in pairwise(sizes):
        for number in range(size + 1, following + 1):
            yield Step(f"m{number} joins", (Join(f"m{number}"),))
        for number in range(size, following, -1):
            yield Step(f"m{number} leaves", (graceful(f"m{number}", grace_s),))


def graceful(member: str, grace_s: float) -> Leave:
    """A leave within a grace, of which at most half is for handing over: the rest is for closing."""
    return Leave(member, min(HAND_OVER_S, grace_s / 2), grace_s)


def in_words(members: int) -> str:
    """A number of members, up to twelve in words.

    >>> in_words(1), in_words(5), in_words(20)
    ('one member', 'five members', '20 members')
    """
    return f"{number_word(members)} member{'' if members == 1 else 's'}"


def number_word(number: int) -> str:
    """A number from 1 on, up to twelve as a word."""
    return _NUMBERS[number - 1] if number <= len(_NUMBERS) else str(number)


def _restarting() -> tuple[Step, ...]:
    """Five static members, of which each ends and is back as another process within its session."""
    return (
        Step("five static members join", tuple(Join(m, static=True) for m in _ROLLED_FIVE)),
        *(Step(f"{m} is replaced", (Leave(m), Join(m, static=True))) for m in _ROLLED_FIVE),
    )


_SCENARIOS = (
    Scenario(
        "churn",
        "Three members join, a fourth joins, one leaves, one is killed.",
        CHURN,
        session_timeout_ms=_SESSION_MS,
        heartbeat_interval_ms=DEFAULT_BEAT_MS,
        gap_ms=_GAP_MS,
    ),
    Scenario(
        "roll",
        "Each of five members is replaced under load: the new process joins, the old one hands its partitions over.",
        replacing(_ROLLED_FIVE),
        topics={"orders": 30},  # Java's VerifiableConsumer takes one topic
        **_AS_BY_DEFAULT,
        require=("C3", "O4"),
    ),
    Scenario(
        "scale",
        "An autoscaler under load: three members, then eight, then three, one at a time.",
        tuple(scaling(SIZES, GRACE_S)),
        topics={"orders": 24},  # Java's VerifiableConsumer takes one topic
        **_AS_BY_DEFAULT,
        require=("C3", "O4"),
    ),
    Scenario(
        "roll-static",
        "Each of five static members is replaced under load, one after the other, within its session.",
        _restarting(),
        topics={"orders": 30},
        **_AS_BY_DEFAULT,
        require=("C3", "S1"),
    ),
    Scenario(
        "election",
        "Three members vote for different assignors; range wins 2 : 1 over roundrobin, which all offer too.",
        (
            Step(
                "three members vote",
                (
                    Join(
                        "c1",
                        ("range", "roundrobin", "kafka_assignors.integration.scenario.custom_assignor:CustomAssignor"),
                    ),
                    Join("c2", ("range", "roundrobin", "sticky")),
                    Join("c3", ("roundrobin", "range", "sticky")),
                ),
            ),
        ),
        rate_per_s=0,
    ),
    Scenario(
        "range-skew",
        "Range over two topics of 4 partitions and 3 members: the first member gets the extra partition of each topic.",
        (Step("three members join", (Join("c0"), Join("c1"), Join("c2"))),),
        topics={"skew-t0": 4, "skew-t1": 4},
        assignors=("range",),
        rate_per_s=0,
    ),
    Scenario(
        "kip-54-1",
        "KIP-54, example 1: four topics of 2 partitions, three equal members, one leaves; sticky moves only its share.",
        (Step("three members join", (Join("c0"), Join("c1"), Join("c2"))), Step("c1 leaves", (Leave("c1"),))),
        topics={"kip54a-t0": 2, "kip54a-t1": 2, "kip54a-t2": 2, "kip54a-t3": 2},
        assignors=("sticky",),
        rate_per_s=0,
    ),
    Scenario(
        "kip-54-2",
        "KIP-54, example 2: topics of 1, 2, 3 partitions; subscriptions {t0}, {t0 t1}, {t0 t1 t2}; the first leaves.",
        (
            Step(
                "three members join",
                (
                    Join("c0", topics=("kip54b-t0",)),
                    Join("c1", topics=("kip54b-t0", "kip54b-t1")),
                    Join("c2", topics=("kip54b-t0", "kip54b-t1", "kip54b-t2")),
                ),
            ),
            Step("c0 leaves", (Leave("c0"),)),
        ),
        topics={"kip54b-t0": 1, "kip54b-t1": 2, "kip54b-t2": 3},
        assignors=("sticky",),
        rate_per_s=0,
    ),
    Scenario(
        "mixed",
        "Members of ours and of Java in one group: either leads, leaves to the other, and is killed.",
        (
            Step("Java joins", (Join("j1", client="java"),)),
            Step("ours joins", (Join("m1"),)),
            Step("another of ours joins", (Join("m2"),)),
            Step("Java leaves, ours leads", (Leave("j1"),)),
            Step("Java joins again", (Join("j1", client="java"),)),
            Step("the leader is killed", (Kill("m1"),)),
        ),
        topics={"mixed-orders": 12},  # Java's VerifiableConsumer takes one topic
    ),
    Scenario(
        "pause",
        "Three members join, one is paused beyond its session and resumes: it must report its partitions as lost.",
        (
            Step("three members join", (Join("m1"), Join("m2"), Join("m3"))),
            Step("m2 is paused", (Pause("m2"),)),
            Step("m2 resumes", (Resume("m2"),)),
        ),
    ),
    Scenario(
        "hand-over",
        "Three members join, with the default heartbeat of 3 s. The leader hands its partitions over and leaves, a "
        "fourth joins while the next one does: no partition waits for a heartbeat.",
        (
            Step("three members join", (Join("m1"), Join("m2"), Join("m3"))),
            Step("m1 hands over", (Leave("m1", hand_over_s=20),)),
            Step("m4 joins, m2 hands over", (Join("m4"), Leave("m2", hand_over_s=20))),
        ),
        gap_ms=1500,
        consumer={"session_timeout_ms": 45_000, "heartbeat_interval_ms": 3_000},
        require=("O4",),
    ),
    Scenario(
        "proxy-faults",
        "One member is cut off and returns, loses its SyncGroup response, has late heartbeats, and has all its "
        "connections reset every second: the others continue.",
        (
            Step("three members join", (Join("m1"), Join("m2"), Join("m3"))),
            Step("m1 is cut off", (Cut("m1"),)),
            Step("m1 is back", (Heal("m1"),)),
            Step("m4 joins, m1 never learns its assignment", (Drop("m1", "SyncGroup"), Join("m4"))),
            Step("a heartbeat of m1 is late", (Delay("m1", 4000, "Heartbeat", times=1),)),
            Step("m1's connections are reset every second", (Reset("m1", times=10, every_ms=1000),)),
        ),
        # by default a client waits half a minute for a lost answer
        consumer={"request_timeout_ms": 3000},
    ),
    Scenario(
        "static",
        "Three static members join, one is killed and returns within its session: the other members do not rebalance.",
        (
            Step("three static members join", tuple(Join(m, static=True) for m in _ROLLED)),
            Step("m2 is killed and returns", (Kill("m2"), Join("m2", static=True))),
        ),
        session_timeout_ms=10_000,
        gap_ms=15_000,
    ),
    Scenario(
        "fenced",
        "Another process takes the instance id of a static member: the old one must stop, the new one takes over.",
        (
            Step("three static members join", tuple(Join(m, static=True) for m in _ROLLED)),
            Step("a twin of m2 joins", (Join("twin", instance="m2"), WaitEnd("m2"))),
        ),
        session_timeout_ms=10_000,
        gap_ms=15_000,
    ),
    Scenario(
        "stall",
        "Three members join, one exceeds its poll interval and polls again: it must report its partitions as lost.",
        (
            Step("three members join", (Join("m1"), Join("m2"), Join("m3"))),
            Step("m2 stops polling", (Stall("m2"),)),
            Step("m2 polls again", (Resume("m2"),)),
        ),
        consumer={"max_poll_interval_ms": 2500},
    ),
    Scenario(
        "stall-assign",
        "The leader is stalled in its assign beyond its session and resumes; the next leader is killed in its assign.",
        (
            Step("m1 joins, and leads", (Join("m1"),)),
            Step("m2 joins", (Join("m2"),)),
            Step("m3 joins, m1 is stalled in its assign", (StallAssign("m1"), Join("m3"), WaitStalled("m1"))),
            Step("m1 resumes", (Resume("m1"),)),
            Step("m1 and m3 leave, m2 leads", (Leave("m1"), Leave("m3"))),
            Step(
                "m4 joins, m2 is killed in its assign", (StallAssign("m2"), Join("m4"), WaitStalled("m2"), Kill("m2"))
            ),
        ),
        topics={"orders": 12},
    ),
    Scenario(
        "topics",
        "A topic grows, one is deleted, one that matches a pattern is created, a subscription changes in place.",
        (
            Step("three members join", (Join("m1"), Join("m2"), Join("m3"))),
            Step("growing grows from 6 to 9 partitions", (AddPartitions("growing", 9),)),
            Step("passing is deleted", (DeleteTopic("passing"),)),
            Step("m4 joins by a pattern", (Join("m4", pattern="growing|coming-.*"),)),
            Step("a topic that matches m4's pattern is created", (CreateTopic("coming-a", 3),)),
            Step("m1 subscribes to it too", (Subscribe("m1", ("coming-a", "growing", "staying")),)),
            Step("m1 subscribes only to it", (Subscribe("m1", ("coming-a",)),)),
        ),
        topics={"growing": 6, "passing": 3, "staying": 3},
        consumer={"metadata_max_age_ms": 1000},
    ),
    Scenario(
        "nodes",
        "Three brokers: the coordinator's node is killed and returns, all restart in turn, and finally the "
        "coordinator's node is killed together with the leader.",
        (
            Step("m1 joins, and leads", (Join("m1"),)),
            Step("m2 and m3 join", (Join("m2"), Join("m3"))),
            Step("the coordinator's node is killed", (KillNode("coordinator"),)),
            Step("it returns", (RestoreNodes(),)),
            Step("every node restarts", (RestartNodes(),)),
            Step("coordinator and leader are killed", (KillNode("coordinator"), Kill("m1"))),
            Step("it returns again", (RestoreNodes(),)),
        ),
        topics={"orders": 6},
        session_timeout_ms=6000,
        gap_ms=30_000,
        nodes=3,
    ),
    Scenario(
        "exactly-once",
        "Members consume, transform and produce in transactions: one joins, one is killed at work, one is paused at "
        "work beyond its session and resumes, one exceeds its poll interval. Their late outputs must stay invisible.",
        (
            Step("two members join", (Join("m1"), Join("m2"))),
            Step("m3 joins", (Join("m3"),)),
            Step("m3 is killed at work", (PauseAtWork("m3"), Kill("m3"))),
            Step("m2 is paused at work", (PauseAtWork("m2"),)),
            Step("m2 resumes", (Resume("m2"),)),
            Step("m4 works beyond its poll interval, and is killed", (_SLOW, Overwork("m4"), Kill("m4"))),
        ),
        topics={"orders": 6},  # Java's member takes one topic
        consumer={"app_work_ms": 200},
        output="orders-done",
        require=("X1", "X2"),
    ),
    Scenario(
        "exactly-once-nodes",
        "Members that consume, transform and produce in transactions, on three brokers: the coordinator's node is "
        "killed and returns, all restart in turn, a member is killed at work.",
        (
            Step("two members join", (Join("m1"), Join("m2"))),
            Step("the coordinator's node is killed", (KillNode("coordinator"),)),
            Step("it returns", (RestoreNodes(),)),
            Step("every node restarts", (RestartNodes(),)),
            Step("m2 is killed at work", (PauseAtWork("m2"), Kill("m2"))),
        ),
        topics={"orders": 6},
        session_timeout_ms=6000,
        gap_ms=30_000,
        consumer={"app_work_ms": 200},
        output="orders-done",
        nodes=3,
        require=("X1", "X2"),
    ),
    Scenario(
        "unclean",
        "A partition's leader is killed while its only follower lacks acknowledged records, and the follower is "
        "elected: the brokers have lost these records, not the clients.",
        (
            Step("two members join", (Join("m1"), Join("m2"))),
            Step("a follower that is behind becomes leader", (UncleanElection("orders"),)),
            Step("the old leader returns", (RestoreNodes(),)),
        ),
        topics={"orders": 2},
        session_timeout_ms=10_000,
        gap_ms=30_000,
        nodes=3,
        require=("K1", "C2", "C3", "C5"),
        lossy=("orders",),
    ),
    Scenario(
        "rolling-assignors",
        "From range to sticky without a stop: each member restarts with both, then each with only sticky.",
        _rolling("sticky"),
    ),
    Scenario(
        "rolling-cooperative",
        "From eager range to cooperative-sticky without a stop, in two bounces (KIP-429), under load.",
        _rolling("cooperative-sticky"),
    ),
    Scenario(
        "rolling-from-java",
        "Java's members with range become ours with cooperative-sticky without a stop, in two bounces, under load.",
        _rolling("cooperative-sticky", "java"),
        topics={"rolling-orders": 12},  # Java's VerifiableConsumer takes one topic
    ),
    Scenario(
        "migration",
        "A group goes from the classic to the consumer protocol (KIP-848) and back under load, member by member: "
        "kafka-python's members become confluent-kafka's, and return.",
        _migrating(),
        topics={"migrating-orders": 6},
        session_timeout_ms=6000,
        gap_ms=15_000,
        require=("O1", "O3", "G2", "C1", "C3", "C5"),
    ),
)

SCENARIOS: Mapping[str, Scenario] = {s.name: s for s in _SCENARIOS}


def scenario(name: str) -> Scenario:
    """The scenario of that name. UnknownName, which lists the known ones, if there is none."""
    try:
        return SCENARIOS[name]
    except KeyError:
        raise UnknownName("scenario", name, SCENARIOS) from None
