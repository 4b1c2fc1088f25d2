"""A group's life of light members, drawn from a seed: each step with the causes that the log should tell."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .light import LightMember

FEWEST, MOST = 2, 8
"""Members of a group."""
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
_WEIGHTS = {
    "join": 24, "leave": 18, "kill": 5, "restart": 14, "storm": 4, "crash": 3, "static restart": 6, "subscription": 12,
    "growth": 5, "rejoin": 5, "two at once": 4,
}  # fmt: skip
_STEP_S = 90.0
_MOST_PARTITIONS = 60

Kinds = tuple[str, ...]
_LEFT: tuple[Kinds, ...] = (("left",), ("left or expired",))
_RESTARTED: tuple[Kinds, ...] = (("restarted",), ("left", "restarted"), ("left or expired", "restarted"))


@dataclass
class Step:
    """What the harness did, and what followed.

    Args:
        kind: A key of the weights.
        truth: Member's name, or "" for the group -> sequences of causes that are right for it.
        before, after: Generation of the group before the step, and when it was at rest again.
        disturbed: Whether the coordinator removed a member unasked, so that `truth` lacks it.
    """

    kind: str
    truth: dict[str, tuple[Kinds, ...]]
    before: int
    after: int = 0
    disturbed: bool = False
    seconds: float = 0.0

    @property
    def generations(self) -> int:
        return self.after - self.before


@dataclass
class Course:
    """One group.

    Args:
        address: Host and port of its coordinator.
        group: Its id.
        seed: Draws the steps.
        topics: Topic -> partition count; the first two are subscribed from the start.
        grow: Makes a topic have so many partitions, and returns when the broker has them.
    """

    address: tuple[str, int]
    group: str
    seed: int
    assignor: str
    topics: dict[str, int]
    grow: Callable[[str, int], None]
    steps: list[Step] = field(default_factory=list)
    members: dict[str, LightMember] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._named = 0

    @property
    def generation(self) -> int:
        """The group's last generation that a member has."""
        return max((member.generation for member in self.members.values()), default=0)

    async def begin(self) -> None:
        """Start three members, one of them static, and wait until the group is at rest."""
        for instance in (None, None, "s1"):
            self._start(instance or self._fresh(), instance)
        await self._rest(0)

    async def play(self, generations: int) -> None:
        """Draw and do steps until the group has had this many generations more."""
        end = self.generation + generations
        while self.generation < end:
            await self.step(self._random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0])

    async def step(self, kind: str) -> None:
        """Do one step, and wait until the group is at rest; a step that can't be done now is left out."""
        step = Step(kind, {}, self.generation)
        loop = asyncio.get_running_loop()
        began = loop.time()
        names = sorted(self.members)
        dynamic = [name for name in names if self.members[name].instance_id is None]
        doing: dict[str, Callable[[], Any]] = {
            "join": lambda: self._join(step),
            "leave": lambda: self._leave(step, self._random.choice(dynamic)),
            "kill": lambda: self._kill(step, self._random.choice(dynamic)),
            "restart": lambda: self._restart(step, [self._random.choice(dynamic)]),
            "storm": lambda: self._restart(step, dynamic),
            "crash": lambda: self._crash(step, self._random.choice(dynamic)),
            "static restart": lambda: self._static_restart(step),
            "subscription": lambda: self._subscribe(step, self._random.choice(names)),
            "growth": lambda: self._growth(step),
            "rejoin": lambda: self._rejoin(step),
            "two at once": lambda: self._two(step, dynamic),
        }
        if (kind in ("leave", "kill") and len(names) <= FEWEST) or (len(names) >= MOST and kind == "join"):
            return
        if not dynamic or (kind == "growth" and not self._growing()):
            return
        await doing[kind]()
        await self._rest(step.before - (kind == "static restart" or not step.truth))
        step.after = self.generation
        step.seconds = round(loop.time() - began, 3)
        for member in self.members.values():
            step.disturbed |= member.expelled
            member.expelled = False
        self.steps.append(step)

    async def end(self) -> None:
        """End all members without a word."""
        for member in self.members.values():
            await member.kill()
        self.members.clear()

    def _fresh(self) -> str:
        self._named += 1
        return f"m{self._named}"

    def _start(self, name: str, instance: str | None = None, topics: Sequence[str] = ()) -> None:
        heard = topics or list(self.topics)[:2]
        self.members[name] = LightMember(
            self.address, self.group, name, heard, self.assignor, lambda: self.topics, instance_id=instance
        )
        self.members[name].start()

    async def _join(self, step: Step) -> None:
        name = self._fresh()
        self._start(name)
        step.truth[name] = (("joined",),)

    async def _leave(self, step: Step, name: str) -> None:
        await self.members.pop(name).leave()
        step.truth[name] = _LEFT

    async def _kill(self, step: Step, name: str) -> None:
        await self.members.pop(name).kill()
        step.truth[name] = (("left or expired",),)

    async def _restart(self, step: Step, names: Sequence[str]) -> None:
        for name in names:
            was = self.members.pop(name)
            await was.leave()
            self._start(name, topics=sorted(was.topics))
            step.truth[name] = _RESTARTED

    async def _crash(self, step: Step, name: str) -> None:
        """Killed, and started again before its session expires: the rebalance waits until the old one expires."""
        was = self.members.pop(name)
        await was.kill()
        self._start(name, topics=sorted(was.topics))
        step.truth[name] = _RESTARTED

    async def _static_restart(self, step: Step) -> None:
        """A static member's process is replaced within its session: no rebalance is due, whatever the broker does."""
        was = self.members.pop("s1")
        await was.kill()
        self._start("s1", "s1", sorted(was.topics))
        self.members["s1"].led = was.led
        step.truth["s1"] = (("returned",), ())

    async def _subscribe(self, step: Step, name: str) -> None:
        both, third = list(self.topics)[:2], list(self.topics)[2]
        member = self.members[name]
        member.rejoin([*both, third] if third not in member.topics else both)
        step.truth[name] = (("subscription",),)

    async def _growth(self, step: Step) -> None:
        """A topic grows; the leader sees it and asks for a rebalance, as clients do."""
        topic = self._random.choice(self._growing())
        count = self.topics[topic] + self._random.randint(1, 3)
        await asyncio.to_thread(self.grow, topic, count)
        self.topics[topic] = count
        self._leader().rejoin()
        step.truth[""] = (("partitions",),)

    async def _rejoin(self, step: Step) -> None:
        """The leader joins again, as ``enforceRebalance`` does: the log has no reason for that."""
        self._leader().rejoin()
        step.truth[""] = (("unexplained",),)

    async def _two(self, step: Step, dynamic: Sequence[str]) -> None:
        if len(self.members) <= FEWEST:
            return
        await self._leave(step, self._random.choice(dynamic))
        await self._join(step)

    def _growing(self) -> list[str]:
        return [topic for topic in list(self.topics)[:2] if self.topics[topic] < _MOST_PARTITIONS]

    def _leader(self) -> LightMember:
        return max(self.members.values(), key=lambda member: member.led)

    async def _rest(self, above: int) -> None:
        """Wait until all members have the same generation, above this one, and none asks for another."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _STEP_S
        while True:
            members = self.members.values()
            if failed := [(name, why) for name, m in self.members.items() if (why := m.failure()) is not None]:
                raise RuntimeError(f"{self.group}: {failed}")
            generations = {member.generation for member in members}
            if all(m.stable for m in members) and len(generations) == 1 and min(generations) > above:
                return
            if loop.time() > deadline:
                states = {name: (m.stable, m.generation, m.member_id[:6]) for name, m in self.members.items()}
                raise TimeoutError(f"{self.group} is not at rest after {_STEP_S:g} s: {states}")
            await asyncio.sleep(0.02)
