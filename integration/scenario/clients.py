"""A scenario whose members all run one client, as far as that client can play it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kafka_assignors.errors import ConfigError, UnknownName

from ..members.config import (
    AIOKAFKA,
    BROKER_ASSIGNED,
    BROKER_ASSIGNORS,
    CLIENTS,
    CONFLUENT,
    CONFLUENT_CONSUMER,
    JAVA,
    JAVA_CONSUMER,
    LEAVING,
    RESUBSCRIBING,
)
from ..members.service import GAP_MS, SERVICE
from ..names import COOPERATIVE
from . import actions as do
from .catalogue import SCENARIOS, Scenario, Step

REQUEST_TIMEOUT = "request_timeout_ms"
MIGRATES = ("range",)
"""Assignors of librdkafka with which a group can change its protocol. Its cooperative-sticky leader puts user data into
assignments, and the coordinator then refuses the conversion (GROUP_ID_NOT_FOUND): user data have no place in the other
records."""
_OF_CLASSIC, _HEARTBEAT = ("JoinGroup", "SyncGroup", "Heartbeat"), "ConsumerGroupHeartbeat"
"""Requests of the classic protocol, and the one request that does their work in the consumer protocol (KIP-848)."""
_CLASSIC = {JAVA_CONSUMER: JAVA, CONFLUENT_CONSUMER: CONFLUENT}
_CONSUMER = {classic: consumer for consumer, classic in _CLASSIC.items()}

_FEWEST = 3
_WITHOUT_HELP = (
    do.Kill,
    do.Pause,
    do.Resume,
    do.AddPartitions,
    do.NetworkFault,
    do.Heal,
    do.KillNode,
    do.StopNode,
    do.PauseNode,
    do.RestartNodes,
    do.RestoreNodes,
)
"""Actions that need nothing of the process that they hit."""

_STATIC = replace(
    SCENARIOS["static"],
    about="Three static members join. One leaves and returns within its session: the others do not rebalance. Then it "
    "is killed: the coordinator refuses its successor until its session ends.",
    steps=(
        SCENARIOS["static"].steps[0],
        Step("m2 leaves and returns", (do.Leave("m2"), do.Join("m2", static=True))),
        Step("m2 is killed, its successor is refused", (do.Kill("m2"), do.Join("m2", static=True), do.WaitEnd("m2"))),
        Step("m2 returns after the end of its session", (do.Join("m2", static=True),)),
    ),
)
_FENCED = replace(
    SCENARIOS["fenced"],
    about="Another process starts with the instance id of a static member: the coordinator refuses the newcomer.",
    steps=(
        SCENARIOS["fenced"].steps[0],
        Step("a twin of m2 is refused", (do.Join("twin", instance="m2"), do.WaitEnd("twin"))),
    ),
)
_OF_BROKER_ASSIGNED: Mapping[str, Scenario] = {scenario.name: scenario for scenario in (_STATIC, _FENCED)}
"""Scenarios that run otherwise under the consumer protocol (KIP-848), where the owner of an instance id keeps it."""


def of_client(what: Scenario, client: str) -> Scenario:
    """A scenario whose members all run one client. Features that the client lacks are replaced or left out.

    Java's tools take one topic, aiokafka has no cooperative assignor, librdkafka names one setting differently, and
    only kafka-python and librdkafka's KIP-848 members subscribe to patterns and change a subscription in place. Members
    of other clients than `LEAVING` hand nothing over before they leave. Under the consumer protocol (KIP-848) the owner
    of an instance id keeps it, and one request replaces those that a fault of the network may name. If the scenario
    itself changes the group's protocol, the client's members of the other protocol play that part, and librdkafka's if
    it has none. UnknownName if the client is unknown.
    """
    if client not in CLIENTS:
        raise UnknownName("client", client, CLIENTS)
    migrates = any(a.client in BROKER_ASSIGNED for step in what.steps for a in step.actions if isinstance(a, do.Join))
    if client in BROKER_ASSIGNED and not migrates:
        what = replace(_OF_BROKER_ASSIGNED.get(what.name, what), assignors=BROKER_ASSIGNORS[:1])
    topics = dict(what.topics)
    if client in (JAVA, JAVA_CONSUMER):
        topics = dict(list(topics.items())[:1])
    classic = _CLASSIC.get(client, client)

    def played(action: do.Action) -> do.Action | None:
        if (
            isinstance(action, do.Delay | do.Drop | do.Reset)
            and action.api in _OF_CLASSIC
            and client in BROKER_ASSIGNED
        ):
            return replace(action, api=_HEARTBEAT)
        if isinstance(action, do.Leave) and client not in LEAVING:
            return replace(action, hand_over_s=0)
        if not isinstance(action, do.Join):
            return action if _can(client, topics, action) else None
        if not migrates:
            action = replace(action, client=client)
        elif action.client in BROKER_ASSIGNED:
            action = replace(action, client=_CONSUMER.get(classic, CONFLUENT_CONSUMER))
        else:
            action = replace(action, client=classic)
        return action if action.pattern is None or action.client in RESUBSCRIBING else None

    steps = [replace(step, actions=tuple(filter(None, map(played, step.actions)))) for step in what.steps]
    left_out = [step.name for step in steps if not step.actions]
    made = replace(what, topics=topics, steps=tuple(step for step in steps if step.actions))
    if left_out:
        made = replace(made, about=f"{what.about} Without the steps that {client} can't play: {', '.join(left_out)}.")
    if migrates and classic == CONFLUENT:
        made = replace(made, assignors=MIGRATES)
    if client == AIOKAFKA:
        made = replace(made, assignors=tuple("sticky" if name == COOPERATIVE else name for name in what.assignors))
    if client in (CONFLUENT, CONFLUENT_CONSUMER) and REQUEST_TIMEOUT in what.consumer:
        rest = {name: value for name, value in what.consumer.items() if name != REQUEST_TIMEOUT}
        made = replace(made, consumer={**rest, "socket_timeout_ms": what.consumer[REQUEST_TIMEOUT]})
    return made


def of_service(
    what: Scenario, topics: Mapping[str, int], replicas: int | None = None, output: tuple[str, int] | None = None
) -> Scenario:
    """A scenario whose members are processes of a user's service, which reads these topics (empty: the scenario's).

    ``churn`` begins with `replicas` processes, by default three. `output` is the topic that the service writes to, and
    its partition count.

    Raises:
        ConfigError: The scenario has an action that only a member of the harness plays, has an output, or names a topic
            that the service doesn't read; the output is one of the topics; or `replicas` are given for another scenario
            than ``churn``, or are below 3.
    """
    if replicas is not None:
        what = _churn_of(what, replicas)
    if what.output is not None:
        raise ConfigError(
            f"scenario {what.name!r} can't be played with a service: its members are the harness's own, and --output "
            f"judges a service's outputs in another one; choose one of: {_playable()}"
        )
    if output is not None:
        if output[0] in (dict(topics) or what.topics):
            raise ConfigError(f"--output {output[0]}: the service reads this topic; name the one that it writes to")
        what = replace(what, output=output[0], output_partitions=output[1])
    what = replace(what, topics=dict(topics) or what.topics, assignors=(SERVICE,), consumer={}, gap_ms=GAP_MS)
    steps = []
    for step in what.steps:
        actions = []
        for action in step.actions:
            played = _of_service(action)
            if played is None:
                raise ConfigError(
                    f"scenario {what.name!r} can't be played with a service: {step.name!r} takes a member of the "
                    f"harness; choose one of: {_playable()}"
                )
            if unread := [topic for topic in _topics_of(action) if topic not in what.topics]:
                raise ConfigError(
                    f"scenario {what.name!r}: {step.name!r} needs topic {unread[0]!r}; add --topic "
                    f"{unread[0]}:PARTITIONS, or remove --topic"
                )
            actions.append(played)
        steps.append(replace(step, actions=tuple(actions)))
    return replace(what, steps=tuple(steps))


def _playable() -> str:
    """The named scenarios that a service can play; `chaos` stands above this module, and draws such actions alone."""
    names = [
        name
        for name, what in SCENARIOS.items()
        if all(_of_service(action) is not None for step in what.steps for action in step.actions)
    ]
    return ", ".join((*names, "chaos"))


def _topics_of(action: do.Action) -> tuple[str, ...]:
    """The topics that an action names."""
    if isinstance(action, do.Join):
        return action.topics
    return (action.topic,) if isinstance(action, do.AddPartitions) else ()


def _of_service(action: do.Action) -> do.Action | None:
    """The same by a process of a service; None if it can't."""
    if isinstance(action, do.Join):
        plain = do.Join(action.member, topics=action.topics)
        return replace(plain, client=SERVICE) if action == plain else None
    if isinstance(action, do.Leave):
        return replace(action, hand_over_s=0)
    return action if isinstance(action, _WITHOUT_HELP) else None


def _churn_of(what: Scenario, replicas: int) -> Scenario:
    """Churn that begins with so many processes. ConfigError if it is another scenario, or they are too few."""
    if what.name != "churn":
        raise ConfigError(
            f"--replicas {replicas} is for scenarios churn and roll; {what.name!r} has members of its own; remove it"
        )
    if replicas < _FEWEST:
        raise ConfigError(
            f"--replicas {replicas} is too few: m2 leaves and m3 is killed; give at least {_FEWEST}, or remove it"
        )
    first = tuple(do.Join(f"m{number}") for number in range(1, replicas + 1))
    return replace(
        what,
        about=f"{replicas} members join, another joins, one leaves, one is killed.",
        steps=(
            Step(f"{replicas} join", first),
            Step("another joins", (do.Join(f"m{replicas + 1}"),)),
            Step("m2 leaves", (do.Leave("m2"),)),
            Step("m3 is killed", (do.Kill("m3"),)),
        ),
    )


def _can(client: str, topics: Mapping[str, int], action: do.Action) -> bool:
    """Whether members notice it: no pattern matches a new topic, and a topic that is left out does not change."""
    if client in RESUBSCRIBING:
        return True
    if isinstance(action, do.AddPartitions | do.DeleteTopic):
        return action.topic in topics
    return not isinstance(action, do.CreateTopic | do.Subscribe)
