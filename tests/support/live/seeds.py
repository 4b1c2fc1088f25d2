"""Planted faults and their sound twins under drawn courses: ``python -m tests.support.live.seeds --seeds 0..19``.

A seed draws how many processes, partitions and records there are, which of them join, leave or are killed in which
order, and when. What the fault needs is waited for: who is killed has just committed and has more work, say. Each play
is a line of JSON: whether the fault was found by its name, or the twin was true.
"""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from kafka_assignors.connection import Connection
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.commands.judged import judged
from kafka_assignors.integration.members.group import Stable
from kafka_assignors.integration.members.service import Service
from kafka_assignors.integration.scenario.actions import Join, Kill, Leave, Pause, PauseAtWork
from kafka_assignors.integration.scenario.catalogue import Scenario, Step
from kafka_assignors.integration.scenario.clients import of_service
from kafka_assignors.integration.scenario.runner import run_scenario
from kafka_assignors.integration.topics.sandbox import Sandbox
from tests.support.waiting import until

from . import many
from .services import CHANCY, CLIENTS, FAULTS, SOUND, anew, buffering, by_batch, in_threads, on_a_timer, with_state

NEEDS: dict[str, tuple[str, ...]] = {
    by_batch.TWICE: (),
    by_batch.SEEKS: (),
    on_a_timer.UNCOMMITTED: ("join", "leave"),
    by_batch.IN_FLIGHT: ("leave",),
    buffering.KEEPS_ON: ("join", "join"),
    by_batch.EARLY: ("kill",),
    by_batch.LATE_OUTPUTS: ("kill",),
    by_batch.BY_ITSELF: ("kill",),
    in_threads.SHARED: ("kill",),
    anew.UNCLOSED: (),
    with_state.SWALLOWS: (),
    buffering.IGNORES_LOSS: (),
}
"""Fault -> what must happen for it to show; the cheapest first."""
_LEAST_MS, _MOST_MS = 6000, 9000
"""Of a session: short, because a kill rests for it, and long enough for a busy machine."""
_FIRST_S, _LAST_S = 0.5, 3.0
"""When the next step begins, after the group is stable."""
_BUSY, _SLOW, _FLOODED = (36, 40, 44), (22, 25, 28), (46, 50, 54)
"""Records a second for each process of the most there are at once: one that works on batches does 33, and half of that
if it works before and after the commit. If more come, its batches grow."""
_RESTS_S = (13, 16)
"""How long the group rests at first: each process that `by_batch.SEEKS` gets to its tenth batch, and reads on."""
_METADATA = (220, 300)
"""Records of a partition before the run ends: after 115 of them the state of `with_state` is too long for a broker."""
_AT_WORK = frozenset(name for name, needed in NEEDS.items() if "kill" in needed) | {by_batch.IN_FLIGHT}
"""Faults that lose what a process works on when it ends."""
_LEAST_RECORDS, _LEAST_FLOODED = 4, 8
"""Of a commit that is waited for: the work on them, or on those that follow, takes longer than to end a process."""
_AMID_S = 0.1
"""After a commit of `_LEAST_FLOODED`: the work on the next batch has begun, and takes much longer."""


@dataclass(frozen=True)
class Play:
    """One run: a client's service with a fault, or its twin, under a seed."""

    client: str
    name: str
    is_planted: bool
    seed: int


@dataclass(frozen=True)
class Outcome:
    """How a play was judged.

    Args:
        value: The verdict.
        laws: Those that were broken.
        reasons: Why the verdict is unknown, or the run gave up.
        steps: What happened.
        is_right: The fault was found by its name; the twin was true.
    """

    play: Play
    value: bool | None
    laws: tuple[str, ...]
    reasons: tuple[str, ...]
    steps: tuple[str, ...]
    seconds: float
    is_right: bool


@dataclass(frozen=True)
class Course:
    """What a seed draws.

    Args:
        delays_s: When each step begins, after the group is stable.
    """

    scenario: Scenario
    partitions: int
    session_ms: int
    delays_s: tuple[float, ...]


def drawn(name: str, seed: int) -> Course:
    """The course of a seed for a fault: the same for each client, and for the twin."""
    chance, fault = random.Random(f"{name} {seed}"), FAULTS[name]
    if name == buffering.IGNORES_LOSS:
        partitions, rate_per_s, steps = 6, chance.choice((70, 100, 130)), list(fault.steps)
    else:
        steps = list(_drawn_steps(chance, NEEDS[name], kills=not fault.exactly_once))
        running: frozenset[str] = frozenset()
        most = max(len(running := step.members_after(running)) for step in steps)
        rates = {by_batch.SEEKS: _SLOW, by_batch.LATE_OUTPUTS: _SLOW, by_batch.IN_FLIGHT: _FLOODED}
        rate_per_s = most * chance.choice(rates.get(name, _BUSY))
        partitions = chance.randint(max(3, most), most + 3)
        if name in _AT_WORK:  # who ends has as much to do as the others
            partitions += -partitions % most
    scenario = Scenario("drawn", "a drawn course", tuple(steps), rate_per_s=rate_per_s)
    delays_s = [round(chance.uniform(_FIRST_S, _LAST_S), 2) for _ in steps]
    if name == by_batch.SEEKS:
        delays_s[0] = round(chance.uniform(*_RESTS_S), 2)
    if name == with_state.SWALLOWS:
        delays_s[-1] = round(chance.uniform(*_METADATA) * partitions / rate_per_s, 2)
    return Course(scenario, partitions, chance.randrange(_LEAST_MS, _MOST_MS), tuple(delays_s))


def at_work(step: Step) -> Step:
    """A service's step that pauses a process while it has records that it has not committed."""
    pauses = (PauseAtWork(action.member) if isinstance(action, Pause) else action for action in step.actions)
    return replace(step, actions=tuple(pauses))


def _drawn_steps(chance: random.Random, needed: Sequence[str], *, kills: bool) -> Iterator[Step]:
    """Two or three members join; then what is needed, and one event more, in any order. One member always stays."""
    running = [f"m{number}" for number in range(1, chance.randint(2, 3) + 1)]
    yield Step(f"{len(running)} join", tuple(map(Join, running)))
    events = [*needed, chance.choice(("join", "leave", "kill") if kills else ("join", "leave"))]
    chance.shuffle(events)
    count = len(running)
    for event in events:
        if event == "join" or len(running) == 1:
            count += 1
            running.append(f"m{count}")
            yield Step(f"m{count} joins", (Join(running[-1]),))
        if event != "join":
            gone = running.pop(chance.randrange(len(running)))
            yield Step(f"{gone}: {event}", (Leave(gone) if event == "leave" else Kill(gone),))


def played(play: Play, broker: Broker, folder: Path) -> Outcome:
    """Play and judge; `folder` gets the service's program and the history."""
    began, fault, course = time.monotonic(), FAULTS[play.name], drawn(play.name, play.seed)
    worker = folder / "worker.py"
    timeouts = re.compile(r"(?<=BATCH = )10_000, 1000\b")
    program, times = timeouts.subn(f"{course.session_ms}, {course.session_ms // 10}", fault.programs[play.client])
    assert times == 1, "the service sets its session in another way"
    worker.write_text(program, "utf-8")
    words = (sys.executable, str(worker), "{bootstrap}", "{group}", "{topic}", "{output}")
    service = Service((*words, play.name if play.is_planted else SOUND), exactly_once=fault.exactly_once)
    what = of_service(course.scenario, {f"{folder.name}-orders": course.partitions}, output=(f"{folder.name}-done", 2))
    what = replace(what, steps=tuple(map(at_work, what.steps)))
    group, delays_s, following = f"g-{folder.name}", iter(course.delays_s), iter([*what.steps[1:], None])

    def rest(_: str, stable: Stable) -> None:
        """Until the next step comes."""
        time.sleep(next(delays_s))  # when it comes is what is drawn
        step = next(following)
        for action in step.actions if step is not None and play.name in _AT_WORK else ():
            if isinstance(action, Kill | Leave):
                flooded = play.name == by_batch.IN_FLIGHT
                least = 1 if not play.is_planted else _LEAST_FLOODED if flooded else _LEAST_RECORDS
                _wait_for_a_commit(broker.connection, group, stable.owned[action.member], least)
                time.sleep(_AMID_S if flooded else 0)

    with Sandbox(broker.connection) as sandbox:
        ran = run_scenario(
            what, broker, folder / "history", "run", sandbox=sandbox, group=group, service=service,
            timeout_s=fault.timeout_s if play.is_planted else 90, on_step=rest,
        )  # fmt: skip
    verdict = judged(ran).verdict
    laws = tuple(sorted({violation.law for violation in verdict.violations}))
    reasons = tuple(filter(None, (*verdict.unknown, ran.gave_up)))
    law = fault.otherwise.get(play.client, fault.found_by)
    if not play.is_planted:
        is_right = verdict.value is True
    elif law:
        is_right = not {law, fault.also}.isdisjoint(laws)
    else:
        is_right = verdict.value is not True and any(fault.unknown in reason for reason in verdict.unknown)
    steps = tuple(step.name for step in what.steps)
    return Outcome(play, verdict.value, laws, reasons, steps, round(time.monotonic() - began, 1), is_right)


def _wait_for_a_commit(connection: Connection, group: str, owned: Mapping[str, Sequence[int]], least: int) -> None:
    """Wait until the group's offsets of these partitions advance, by at least so many records at once."""
    tps = [TopicPartition(topic, partition) for topic, partitions in owned.items() for partition in partitions]
    with closing(KafkaAdminClient(bootstrap_servers=connection.bootstrap)) as admin:

        def committed() -> int:
            return sum(max(0, place.offset) for place in admin.list_group_offsets({group: tps})[group].values())

        last = committed()

        def advanced() -> bool:
            nonlocal last
            before, last = last, committed()
            return last - before >= least

        until(advanced, f"a commit of {least} records of {tps}")


def plays(seeds: Iterable[int], names: Iterable[str] = NEEDS, clients: Iterable[str] = CLIENTS) -> Iterator[Play]:
    """Each fault and its twin, of each client that can have it, seed by seed."""
    asked, there = list(names), list(clients)
    for seed in seeds:
        for name in asked:
            for client in (client for client in there if client in FAULTS[name].programs):
                for is_planted in (True, False) if (client, name) != CHANCY else (True,):
                    yield Play(client, name, is_planted, seed)


def failed(play: Play, error: str) -> Outcome:
    """A play that raised."""
    return Outcome(play, None, (), (error,), (), 0, is_right=False)


def main() -> None:
    """Play what is asked for, and print a line for each play."""
    parser = many.arguments(__doc__, CLIENTS)
    parser.add_argument("--faults", default=",".join(NEEDS), help="names, with commas in between")
    asked = parser.parse_args()
    chosen = plays(many.seeds(asked), asked.faults.split(","), asked.clients.split(","))
    many.print_outcomes(asked, chosen, played, failed)


if __name__ == "__main__":
    main()
