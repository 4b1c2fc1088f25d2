"""Runs a scenario on a broker with real members, step by step. It does not judge the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import ConfigError

from ..broker import Broker
from ..broker.cluster import Cluster
from ..errors import HarnessError, NotSupported
from ..members.group import MemberGroup, Stable
from ..members.service import JOIN_MS, Service
from ..proxy import Applied, FaultProxy, WireTap
from ..records import Sender, read_back
from ..records.sender import ALL, LEADER, Values
from ..topics import LOSSY, STAMPED
from ..topics.sandbox import Sandbox
from . import actions as do
from .catalogue import STEP_S, Scenario, Step
from .outages import Outages
from .prefix import prefixed

OnStep = Callable[[str, Stable], None]
"""Receives a step's name and the stable group after it."""


@dataclass(frozen=True)
class ScenarioRun:
    """A scenario that was run, with the topic names on the broker. Its history is kept and not judged yet."""

    scenario: Scenario
    group: str
    folder: Path
    steps: tuple[tuple[str, Stable], ...]  # name of each completed step, and the stable group after it
    gave_up: str = ""  # why the run ended early; empty if it completed


def run_scenario(  # options of one run, given by name
    scenario: Scenario,
    broker: Broker,
    folder: Path,
    run: str,
    *,
    sandbox: Sandbox | None = None,
    group: str | None = None,
    on_step: OnStep | None = None,
    timeout_s: float = STEP_S,
    for_s: float | None = None,
    service: Service | None = None,
    values: Values = (),
) -> ScenarioRun:
    """Run the scenario. It ends early if the group does not become stable after a step.

    Args:
        scenario: The scenario to run.
        broker: The broker or cluster to use; it must be ready.
        folder: Gets the history of this group; nothing else may write there.
        run: Id of the run, on every event.
        sandbox: Creates the topics and the group. None: a sandbox for this scenario alone, with its own prefix on an
            external broker, removed at the end.
        group: Group id in the sandbox; by default the scenario's name and the run's first characters.
        on_step: Called when the group is stable after each step.
        timeout_s: Limit for each step, and for the group to consume everything at the end.
        for_s: No step begins later; None: all steps are run.
        service: Its processes are the members, and the scenario is `of_service`. None: members of the harness.
        values: Of the records that are sent, in turn, or made of each id; empty: the sender's own.

    Raises:
        NotSupported: The scenario has network faults and the broker has no listener for a proxy, or the scenario needs
            several nodes and this is a single broker.
        ConfigError: A topic exists with another partition count.
    """
    require_fit(scenario, broker)
    steps: list[tuple[str, Stable]] = []
    gave_up = ""
    with ExitStack() as stack:
        sandbox = sandbox or stack.enter_context(Sandbox.on(broker))
        scenario = prefixed(scenario, sandbox.prefix)
        make_topics(sandbox, scenario)
        group = sandbox.name(group or f"{scenario.name}-{run[:8]}")
        proxy = None
        if scenario.network_faults:
            proxy = stack.enter_context(FaultProxy(broker.routes, folder, run))
        tap = None if service is None else WireTap.before(broker, faulty=proxy is not None)
        if tap is not None:
            stack.enter_context(tap)
        timeouts = {name: getattr(scenario, name) for name in ("session_timeout_ms", "heartbeat_interval_ms")}
        members = stack.enter_context(MemberGroup(broker.connection, group, folder, run, **timeouts))
        outages = Outages(broker, members) if isinstance(broker, Cluster) and len(broker.nodes) > 1 else None
        stage = _Stage(scenario, members, proxy, outages, timeout_s, service, tap)
        try:
            with ExitStack() as sending:

                def send() -> None:
                    topics, rate_per_s = sorted(scenario.lasting_topics), scenario.rate_per_s
                    acks = LEADER if scenario.lossy else ALL
                    if rate_per_s:
                        sender = Sender(
                            broker.connection, folder, run, topics, "default", rate_per_s, acks=acks, values=values
                        )
                        stage.sender = sending.enter_context(sender)

                if service is None:
                    send()
                began = time.monotonic()
                for step in scenario.steps:
                    if for_s is not None and time.monotonic() - began >= for_s:
                        break
                    steps.append(stage.take(step))
                    if service is not None and len(steps) == 1:
                        send()  # not earlier: by default a new group begins at the end of its topics
                    if on_step:
                        on_step(*steps[-1])
            # What a service has read and not committed it may not have worked on yet.
            members.drain(timeout_s, committed=scenario.output is not None)
            if scenario.output is not None:
                if service is not None:
                    members.end_members()  # what they have not sent yet, they send before they end
                senders = () if service is None or stage.sender is None else (stage.sender.id,)
                outputs = [scenario.output]
                match = None if service is None else service.match
                read_back(
                    broker.connection, folder, run, outputs,
                    committed=True, timeout_s=timeout_s, senders=senders, match=match, dated=not sandbox.prefix,
                )  # fmt: skip
            if scenario.lossy:
                read_back(broker.connection, folder, run, scenario.lossy, timeout_s=timeout_s)
        except HarnessError as error:  # the verdict over this history isn't true
            gave_up = str(error)
            members.write("error", error=type(error).__name__, fatal=True, message=gave_up)
    return ScenarioRun(scenario, group, folder, tuple(steps), gave_up)


def make_topics(sandbox: Sandbox, scenario: Scenario) -> None:
    """Make the topics of a scenario that has the sandbox's prefix; those that are there stay as they are."""
    options = dict.fromkeys(scenario.lossy, LOSSY)
    sandbox.make(scenario.made_topics, options if scenario.output is None else {**options, scenario.output: STAMPED})


def require_fit(scenario: Scenario, broker: Broker) -> None:
    """Check, before anything is made, that a scenario can run on this broker. NotSupported if it can't."""
    if scenario.nodes > max(1, len(broker.nodes)):
        raise NotSupported(f"scenario {scenario.name!r} needs a cluster of {scenario.nodes} nodes, not {broker!r}")
    if scenario.network_faults:
        _ = broker.routes


@dataclass
class _Stage:
    """Everything that a scenario's actions act on."""

    scenario: Scenario
    members: MemberGroup
    proxy: FaultProxy | None
    outages: Outages | None
    timeout_s: float
    service: Service | None = None
    tap: WireTap | None = None
    sender: Sender | None = None
    passing: list[Applied] = field(default_factory=list)  # network faults of this step that end on their own
    name: str = ""  # of this step, with the members that were killed because they outlasted a grace
    session_ms: int = 0  # how long the group may take to notice such a kill; 0 without one

    def take(self, step: Step) -> tuple[str, Stable]:
        """Perform a step and wait until the group is stable. Return the step's name and the group."""
        self.name, self.session_ms = step.name, 0
        self.members.step(self.name, self._gap_ms(), beside_work=self.service is not None)
        self.passing.clear()
        for grace, actions in groupby(step.actions, key=_grace):
            if grace is None:
                for action in actions:
                    _ACTS[type(action)](self, action)
            else:
                self.end([action.member for action in actions if isinstance(action, do.Leave)], *grace)
        for applied in self.passing:
            applied.wait(self.timeout_s)
        if any(isinstance(action, do.OF_NODES) for action in step.actions):
            # Old commits look like rest whether or not the brokers serve anybody.
            self.members.wait_committing(self.timeout_s)
        stable = self.members.wait_stable(timeout_s=self.timeout_s + self.session_ms / 1000)
        if any(isinstance(action, do.PauseAtWork) for action in step.actions):
            self.members.wait_committing(self.timeout_s)  # by then its successor has begun
        return self.name, stable

    def _gap_ms(self, *, kills: bool = False) -> int:
        """How long a partition may be without an owner in a step, and if a member is killed that outlasted a grace."""
        gap_ms, session_ms = self.scenario.gap_ms, self.members.longest_session_ms
        if session_ms is None:
            return gap_ms
        if self.service is not None:  # its own settings, not the longest that are usual
            return min(gap_ms, session_ms + JOIN_MS)
        return max(gap_ms, session_ms + JOIN_MS) if kills else gap_ms

    def end(self, members: Sequence[str], grace_s: float, hand_over_s: float) -> None:
        """End members as an orchestrator does. A kill begins a step of its own: only a session's end is heard of."""

        def on_kill(member: str) -> None:
            self.name += f"; {member} is killed"
            self.session_ms = self.members.longest_session_ms or 0
            self.members.step(self.name, self._gap_ms(kills=True), beside_work=self.service is not None)

        self.members.end(*members, grace_s=grace_s, hand_over_s=hand_over_s, on_kill=on_kill)

    def join(self, action: do.Join) -> None:
        topics = action.topics or (() if action.pattern else tuple(self.scenario.topics))
        self.members.start(
            action.member,
            list(topics),
            list(action.assignors or self.scenario.assignors),
            client=action.client,
            instance_id=action.instance or (action.member if action.static else None),
            pattern=action.pattern,
            output=self.scenario.output,
            via=self.proxy,
            service=self.service,
            tap=self.tap,
            **{**self.scenario.consumer, **action.consumer},
        )

    def pause(self, action: do.Pause) -> None:
        self._wait_at_work()
        self.members.pause(action.member)

    def hit(self, action: do.NetworkFault) -> None:
        """Put a network fault in force. If it ends on its own, the step waits for its end."""
        assert self.proxy is not None
        self._wait_at_work()
        applied = self.proxy.apply(action)
        self.passing += [applied] if action.ends else []

    def _wait_at_work(self) -> None:
        """Under the consumer protocol (KIP-848), wait until all members commit.

        Java's member (4.3.0) ends if its session ends between its assignment and its first OffsetFetch: `poll` throws
        the coordinator's answer, UNKNOWN_MEMBER_ID.
        """
        if self.members.broker_assigned and self.scenario.rate_per_s:
            self.members.wait_committing(self.timeout_s)

    def leave(self, action: do.Leave) -> None:
        """Stop a member, which hands its partitions over first if it is told to."""
        if action.hand_over_s:
            self.members.leave(action.member, hand_over_s=action.hand_over_s)
        else:
            self.members.stop(action.member)

    def heal(self, action: do.Heal) -> None:
        assert self.proxy is not None
        self.proxy.heal(applied for applied in self.proxy.in_force if applied.fault.member == action.member)

    def elect_unclean(self, action: do.UncleanElection) -> None:
        if self.sender is None:
            raise ConfigError(f"scenario {self.scenario.name!r} loses records; set rate_per_s above 0")
        self.nodes.elect_unclean(TopicPartition(action.topic, action.partition), self.sender, self.timeout_s)

    @property
    def nodes(self) -> Outages:
        """The nodes of the cluster. ConfigError if there is no cluster."""
        if self.outages is None:
            raise ConfigError(f"scenario {self.scenario.name!r} has node actions; set nodes=3")
        return self.outages


def _grace(action: do.Action) -> tuple[float, float] | None:
    """Grace and time for handing over of a member that must end in time; None of any other action."""
    if isinstance(action, do.Leave) and action.grace_s is not None:
        return action.grace_s, action.hand_over_s
    return None


_ACTS: Mapping[type[Any], Callable[[_Stage, Any], object]] = {
    do.Join: _Stage.join,
    do.Leave: _Stage.leave,
    do.Kill: lambda on, a: on.members.kill(a.member),
    do.Pause: _Stage.pause,
    do.PauseAtWork: lambda on, a: on.members.pause_at_work(a.member, on.timeout_s),
    do.Overwork: lambda on, a: on.members.overwork(a.member, on.timeout_s),
    do.Stall: lambda on, a: on.members.stall(a.member, on.timeout_s),
    do.Resume: lambda on, a: on.members.resume(a.member),
    do.StallAssign: lambda on, a: on.members.stall_assign(a.member),
    do.WaitStalled: lambda on, a: on.members.wait_stalled(a.member, on.timeout_s),
    do.WaitEnd: lambda on, a: on.members.wait_end(a.member, on.timeout_s),
    do.Subscribe: lambda on, a: on.members.subscribe(a.member, a.topics, pattern=a.pattern),
    do.CreateTopic: lambda on, a: on.members.topics.create(a.topic, a.partitions),
    do.AddPartitions: lambda on, a: on.members.topics.add_partitions(a.topic, a.partitions),
    do.DeleteTopic: lambda on, a: on.members.topics.delete(a.topic),
    do.KillNode: lambda on, a: on.nodes.kill(a.node),
    do.StopNode: lambda on, a: on.nodes.stop(a.node),
    do.PauseNode: lambda on, a: on.nodes.pause(a.node),
    do.RestoreNodes: lambda on, _: on.nodes.restore(on.timeout_s),
    do.RestartNodes: lambda on, _: on.nodes.restart_all(on.timeout_s),
    do.UncleanElection: _Stage.elect_unclean,
    do.Heal: _Stage.heal,
    **dict.fromkeys((do.Cut, do.Delay, do.Drop, do.Reset), _Stage.hit),
}
