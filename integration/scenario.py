"""What shall happen to a group, as a value: topics, then named steps of joins, leaves and kills. Nothing here runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_assignors.errors import UnknownName


@dataclass(frozen=True)
class Join:
    """A member starts.

    Args:
        member: Its name in the run.
        assignors: Its ordered list of assignors; empty: the scenario's.
        topics: Its subscription; empty: all topics of the scenario.
        static: It has an instance id (its name), so that it may restart without a rebalance.
        client: Which client it runs; see `MemberGroup.start`.
    """

    member: str
    assignors: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    static: bool = False
    client: str = "kafka-python"


@dataclass(frozen=True)
class Leave:
    """A member closes its consumer and leaves the group."""

    member: str


@dataclass(frozen=True)
class Kill:
    """A member's process gets SIGKILL; the coordinator notices when its session ends."""

    member: str


@dataclass(frozen=True)
class Pause:
    """A member's process gets SIGSTOP; the coordinator evicts it when its session ends."""

    member: str


@dataclass(frozen=True)
class Resume:
    """A paused member's process gets SIGCONT."""

    member: str


Action = Join | Leave | Kill | Pause | Resume


@dataclass(frozen=True)
class Step:
    """Actions taken together; the group must be stable again before the next step."""

    name: str
    actions: tuple[Action, ...]

    def members_after(self, before: frozenset[str]) -> frozenset[str]:
        """The members in the group once this step is done, given those in it before."""
        members = set(before)
        for action in self.actions:
            if isinstance(action, Join | Resume):
                members.add(action.member)
            else:
                members.discard(action.member)
        return frozenset(members)


@dataclass(frozen=True)
class Scenario:
    """A named course of events for one group.

    Args:
        name: Known to ``python -m integration run NAME``.
        about: One sentence for the user.
        steps: In order.
        topics: topic -> partition count; created for the run.
        assignors: The assignors of members that name none.
        rate_per_s: Records sent per second while the steps happen; 0: none, and the law that nothing acknowledged is
            lost has nothing to judge.
        gap_ms: How long a topic-partition may be without an owner (law O4): a session, and what it takes to join.
        session_timeout_ms: How long the coordinator waits for a silent member.
    """

    name: str
    about: str
    steps: tuple[Step, ...]
    topics: Mapping[str, int] = field(default_factory=lambda: dict(DEMO_TOPICS))
    assignors: tuple[str, ...] = ("cooperative-sticky",)
    rate_per_s: int = 100
    gap_ms: int = 8000
    session_timeout_ms: int = 2000


DEMO_TOPICS: Mapping[str, int] = {"orders": 12, "payments": 6, "audit": 3}

CHURN = (
    Step("three members join", (Join("m1"), Join("m2"), Join("m3"))),
    Step("a fourth joins", (Join("m4"),)),
    Step("m2 leaves", (Leave("m2"),)),
    Step("m3 is killed", (Kill("m3"),)),
)

_ROLLED = ("m1", "m2", "m3")


def _rolling(to: str, client: str = "kafka-python") -> tuple[Step, ...]:
    """From range to another assignor in two bounces: each member restarts with both, then each with the new one alone.

    Args:
        to: Its protocol name.
        client: What they run in the beginning; afterwards it is kafka-python.
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


_SCENARIOS = (
    Scenario("churn", "Three members join, a fourth joins, one leaves, one is killed.", CHURN),
    Scenario(
        "election",
        "Three members vote for different assignors; range wins 2 : 1 over roundrobin, which all of them know too.",
        (
            Step(
                "three members vote",
                (
                    Join("c1", ("range", "roundrobin", "integration.examples:CustomAssignor")),
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
        (
            Step("three members join", (Join("c0"), Join("c1"), Join("c2"))),
            Step("c1 leaves", (Leave("c1"),)),
        ),
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
        "Three members join, one stands still beyond its session, and goes on: it must notice what it has lost.",
        (
            Step("three members join", (Join("m1"), Join("m2"), Join("m3"))),
            Step("m2 is paused", (Pause("m2"),)),
            Step("m2 goes on", (Resume("m2"),)),
        ),
    ),
    Scenario(
        "static",
        "Three static members join, one is killed and comes back within its session: nobody else notices.",
        (
            Step("three static members join", tuple(Join(m, static=True) for m in _ROLLED)),
            Step("m2 is killed and comes back", (Kill("m2"), Join("m2", static=True))),
        ),
        session_timeout_ms=10_000,
        gap_ms=15_000,
    ),
    Scenario(
        "rolling-assignors",
        "From range to sticky without a stop: each member restarts with both, then each with sticky alone.",
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
)

SCENARIOS: Mapping[str, Scenario] = {s.name: s for s in _SCENARIOS}


def scenario(name: str) -> Scenario:
    """The scenario of that name.

    Raises:
        UnknownName: None has it; lists the known ones.
    """
    try:
        return SCENARIOS[name]
    except KeyError:
        raise UnknownName("scenario", name, SCENARIOS) from None
