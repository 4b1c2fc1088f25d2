"""Decides when a member requests a rebalance. Pure: times are passed in.

A leader learns other members' weights as they join, and nothing in between. So each member watches its own work: it
knows the group's bound from its assignment (`core.wire.balance`), and requests a rebalance if its work / capacity
exceeds the bound by the rule of `hysteresis.verdict`. The leader also requests one if too few partitions were measured
when it assigned: members that start have no measurements.

Only the leader's join always rebalances the group. Another member's does if its user data have changed: they contain
`Loop.asked`.
"""

from __future__ import annotations

import math

from .hysteresis import CHECKS, GROUP_S, IN_A_ROW, OF_CAPACITY, Judgement, verdict
from .model import EPSILON
from .options import ByWorkOptions

COVERED = 0.9
"""Share of measured partitions below which the leader requests another rebalance."""
SPREAD = 0.25
"""Jitter: share by which the interval between two checks varies from member to member."""


class Loop:
    """The checks of one member. Times are monotonic seconds.

    Args:
        every_s: Seconds between checks; None: no requests.
        rest_s: Seconds after a rebalance without requests.
        jitter: 0 to 1, different for each member, so that requests do not coincide.
        of_capacity: See `hysteresis.verdict`; 0 if weights are not seconds per second.

    Attributes:
        asked: Number of requests so far.
        checks: Number of consecutive checks, up to the last one, that found it above `IN_A_ROW`.

    Raises:
        ConfigError: `every_s` or `rest_s` is not a finite number above 0.
    """

    def __init__(
        self,
        every_s: float | None = None,
        rest_s: float = GROUP_S,
        epsilon: float = EPSILON,
        jitter: float = 0.5,
        of_capacity: float = OF_CAPACITY,
    ) -> None:
        ByWorkOptions.check_every_s.of_consumer(every_s)
        ByWorkOptions.rest_s.of_consumer(rest_s)
        self._every_s = None if every_s is None else every_s * (1 - SPREAD + 2 * SPREAD * jitter)
        self._rest_s, self._epsilon, self._of_capacity = rest_s, epsilon, of_capacity
        self.asked = self.checks = 0
        self._reference: float | None = None
        self._coverage = 1.0
        self._leads = False
        self._since: float | None = None
        self._next = -math.inf
        self._patience = 1.0  # multiple of the rest, after which the leader requests weights again

    @property
    def on(self) -> bool:
        """Whether requests are enabled."""
        return self._every_s is not None

    def due(self, now: float) -> bool:
        """Whether a check is due. A check reads all weights."""
        return self._every_s is not None and self._since is not None and now >= self._next

    def rebalanced(self, now: float, reference: float | None, coverage: float, *, leads: bool) -> None:
        """Adopt an assignment, whose leader knew the weights of a share of the partitions: `coverage`.

        `reference` is the work / capacity to stay near, from the function `reference`; None if no weight was known.
        """
        if coverage > self._coverage or not leads:
            self._patience = 1.0
        self._reference, self._coverage, self._leads = reference, coverage, leads
        self._since, self.checks = now, 0

    def refer(self, reference: float) -> None:
        """Stay near another work / capacity from now on: what kept the leader from a better assignment is over."""
        self._reference = reference

    def check(self, now: float, work: float | None, capacity: float) -> Judgement | None:
        """Check this member's work, None without measurements; returns None if no check is due."""
        if self._every_s is None or self._since is None or not self.due(now):
            return None
        self._next = now + self._every_s
        rested_s = (now - self._since) * GROUP_S / self._rest_s  # in units of the rule's rest period
        if work is None:
            return Judgement(False, "nothing is measured yet")
        if self._leads and self._coverage < COVERED:
            if rested_s < GROUP_S * self._patience:
                return Judgement(False, f"{self._coverage:.0%} of the partitions measured; the group rests")
            self._patience *= 2
            return self._count_request(
                Judgement(True, f"{self._coverage:.0%} of the partitions measured when it assigned")
            )
        if self._reference is None or capacity <= 0:
            return Judgement(False, "the group's bound is unknown")
        now_at, target = work / capacity, self._reference * (1 + self._epsilon)
        judgement = verdict(
            now_at, target, self._reference, checks=self.checks, since_s=rested_s, of_capacity=self._of_capacity
        )
        self.checks = min(self.checks + 1, CHECKS) if now_at > IN_A_ROW * self._reference else 0
        return self._count_request(judgement)

    def _count_request(self, judgement: Judgement) -> Judgement:
        self.asked += judgement.act
        return judgement


def reference(bound: float, greatest: float, epsilon: float) -> float:
    """The work / capacity that members should stay near; `greatest` is the leader's result, `bound` its lower bound.

    If the result is above the limit, no better one was found or allowed, and another request would not help.
    """
    return max(bound, greatest / (1 + epsilon))
