"""When a group should have another number of members: the fewest that keep the delay, with hysteresis. Pure.

| the group | the answer |
|---|---|
| changed its size within `Rules.settle_s` | the answer before: a member that is away for a moment changes nothing |
| doesn't keep the delay | the fewest members, more than now, that keep it with spare |
| has more members than kept it with spare for all of `Rules.rest_s`, and its load doesn't rise | the fewest that did |
| else | the current number |

The spare doubles with each growth within `Rules.rest_s`: a load that goes on rising costs few rebalances. Numbers
between two `sizes.steps` are never an answer: with them no member has fewer partitions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from .sizes import Rules, SizeDelay

_FACTOR = 2.0
"""Of the spare, for each growth within the rest."""

_WORTH = 0.9
"""Where no size keeps the delay, a larger one must have a delay below this part of the current one."""


@dataclass(frozen=True)
class Proposal:
    """How many members a group should have.

    Args:
        members: That number.
        now: The current one.
        kept: Whether the delay is kept with `members`; None if that isn't known.
        why: One sentence.
    """

    members: int
    now: int
    kept: bool | None
    why: str


class Scaler:
    """Answers for one group, look after look.

    `at_once` leaves out what takes time: the settling, and the rest before the group shrinks. It is for one answer from
    one measurement.
    """

    def __init__(self, rules: Rules, *, at_once: bool = False) -> None:
        self._rules, self._at_once = rules, at_once
        self._members: int | None = None
        self._since = 0.0  # of this number of members
        self._wanted, self._grows = 0, False  # the last answer, and whether it was more members than there were
        self._growths: deque[float] = deque()  # times at which the group had grown as it should
        self._targets: deque[tuple[float, int, float]] = deque()  # (time, fewest members, load)

    def decide(self, now_s: float, members: int, sizes: Sequence[SizeDelay], *, measured: bool = True) -> Proposal:
        """The answer now; it is about the current members, whoever decided their number.

        Args:
            now_s: Of a clock that never goes back.
            members: Current number of members, 1 or more.
            sizes: The current size, and those at which the largest share falls; ascending.
            measured: Whether the pace of the members was measured, or given. If not, `sizes` have a lower bound of it,
                and their delays are upper bounds: then the group may shrink, and never grows.
        """
        rules = self._rules
        current = next(size for size in sizes if size.members == members)
        allowed = [size for size in sizes if rules.least <= size.members <= (rules.most or size.members)]
        steps = [size for n, size in enumerate(allowed) if all(size.partitions < s.partitions for s in allowed[:n])]
        self._remember(now_s, members, sizes, steps)
        kept = current.delay_s(rules.horizon_s) <= rules.delay_s or (False if measured else None)
        if now_s - self._since < rules.settle_s and not self._at_once:
            return Proposal(self._wanted, members, kept, f"the group has {members} for less than {rules.settle_s:g} s")
        answer = self._decided(now_s, current, steps, kept)
        self._wanted, self._grows = answer.members, answer.members > members
        return answer

    def _decided(self, now_s: float, current: SizeDelay, steps: Sequence[SizeDelay], kept: bool | None) -> Proposal:
        rules, members = self._rules, current.members
        bounded = max(members, rules.least) if rules.most is None else min(max(members, rules.least), rules.most)
        if bounded != members:
            return Proposal(bounded, members, None, f"the bounds of the number leave no {members}")
        if kept is False:
            return self._grown(current, steps)
        return self._shrunk(now_s, members, steps, kept)

    def _remember(self, now_s: float, members: int, sizes: Sequence[SizeDelay], steps: Sequence[SizeDelay]) -> None:
        since_s = now_s - self._rules.rest_s
        if members != self._members:
            if self._members is None:
                self._wanted = members
            elif self._grows and members > self._members:
                self._growths.append(now_s)
            self._members, self._since = members, now_s
        while self._growths and self._growths[0] < since_s:
            self._growths.popleft()
        target = self._fewest(steps, self._rules.spare)
        self._targets.append((now_s, members if target is None else target.members, sum(sizes[0].rates)))
        while self._targets[0][0] < since_s:
            self._targets.popleft()

    def _fewest(self, sizes: Sequence[SizeDelay], spare: float) -> SizeDelay | None:
        """The first size that keeps the delay with spare."""
        rules = self._rules
        return next((size for size in sizes if size.delay_s(rules.horizon_s, spare) <= rules.delay_s), None)

    def _grown(self, current: SizeDelay, steps: Sequence[SizeDelay]) -> Proposal:
        rules, more = self._rules, [size for size in steps if size.members > current.members]
        spare = rules.spare * _FACTOR ** len(self._growths)

        def delay_s(size: SizeDelay, spare: float = spare) -> float:
            return size.delay_s(rules.horizon_s, spare)

        target = self._fewest(more, spare)
        if target is None and more:  # the least delay, if it is worth the rebalance
            target = min(more, key=lambda size: (delay_s(size), size.members))
            if delay_s(target) >= _WORTH * delay_s(current):
                target = None
        waits = f"at the measured rates records wait up to {delay_s(current, 0.0):,.0f} s with {current.members}"
        if target is None:
            return Proposal(current.members, current.members, False, f"{waits}, and more members don't help")
        then_s = delay_s(target, 0.0)
        why = f"{waits}, and up to {then_s:,.0f} s with {target.members}"
        return Proposal(target.members, current.members, then_s <= rules.delay_s, why)

    def _shrunk(self, now_s: float, now: int, steps: Sequence[SizeDelay], kept: bool | None) -> Proposal:
        rules, spared = self._rules, f"with rates {self._rules.spare:.0%} higher"
        targets = list(self._targets)[-1:] if self._at_once else self._targets
        wanted = max(members for _, members, _ in targets)
        fewer = next((size.members for size in steps if size.members >= wanted), now)
        if fewer >= now:
            if self._targets[-1][1] >= now:
                return Proposal(now, now, kept, f"fewer than {now} don't keep the delay {spared}")
            return Proposal(
                now, now, kept, f"fewer than {now} keep the delay {spared} for less than {rules.rest_s:g} s"
            )
        if not self._at_once:
            if now_s - self._since < rules.rest_s:
                return Proposal(now, now, kept, f"{fewer} would do; the group shrinks after {rules.rest_s:g} s of that")
            if self._targets[-1][2] > mean(load for _, _, load in self._targets):
                return Proposal(now, now, kept, f"{fewer} would do, and the load rises")
        return Proposal(fewer, now, True, f"{fewer} keep the delay, also {spared}")
