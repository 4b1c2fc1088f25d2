"""Random faults for as long as needed: eight members over 64 partitions. The seed decides the course. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

from .actions import Join, Kill, Leave, Pause, Resume, Stall
from .catalogue import Scenario, Step

MEMBERS = tuple(f"m{number}" for number in range(1, 9))
STATIC = frozenset(MEMBERS[-2:])
FEWEST = 4
"""The least number of members that stay in the group."""
PARTITIONS = 64
_SESSION_MS, _POLL_INTERVAL_MS, _BUSY_MS = 6000, 8000, 20_000
_MOST_STEPS = 5000


def soak(seed: int) -> Scenario:
    """A scenario with more steps than fit in a day; limit the run with `for_s`. The seed decides the whole course."""
    return Scenario(
        "soak",
        f"Eight members over {PARTITIONS} partitions, and one fault at a time, drawn from seed {seed}.",
        tuple(islice(_steps(random.Random(seed)), _MOST_STEPS)),
        topics={"soak-orders": PARTITIONS // 2, "soak-payments": PARTITIONS // 4, "soak-audit": PARTITIONS // 4},
        session_timeout_ms=_SESSION_MS,
        # a session, the others' wait for a member that stalls during a join, and a busy machine
        gap_ms=_SESSION_MS + _POLL_INTERVAL_MS + _BUSY_MS,
        consumer={"max_poll_interval_ms": _POLL_INTERVAL_MS},
    )


def _steps(draw: random.Random) -> Iterator[Step]:
    yield Step("eight members join", tuple(Join(member, static=member in STATIC) for member in MEMBERS))
    here, away = set(MEMBERS), set[str]()
    while True:
        # Only dynamic members may leave: a static member that leaves is missed like one that dies.
        loose = sorted(here - STATIC)
        kinds = ["restart"]
        if away:
            kinds += ["join"] * 3
        if len(here) > FEWEST:
            kinds += ["leave", "kill", "kill", "pause", "stall"]
        if away and len(here) > FEWEST:
            kinds.append("exchange")
        kind = draw.choice(kinds)
        if kind == "restart":
            member = draw.choice(sorted(STATIC))
            yield Step(f"{member} is killed and comes back", (Kill(member), Join(member, static=True)))
        elif kind == "join":
            member = draw.choice(sorted(away))
            yield Step(f"{member} joins", (Join(member),))
            here, away = here | {member}, away - {member}
        elif kind in ("leave", "kill"):
            member = draw.choice(loose)
            leave = kind == "leave"
            yield Step(f"{member} {'leaves' if leave else 'is killed'}", (Leave(member) if leave else Kill(member),))
            here, away = here - {member}, away | {member}
        elif kind == "exchange":
            member, other = draw.choice(loose), draw.choice(sorted(away))
            yield Step(f"{member} is killed while {other} joins", (Kill(member), Join(other)))
            here, away = here - {member} | {other}, away - {other} | {member}
        else:
            member = draw.choice(loose)
            stands = Pause(member) if kind == "pause" else Stall(member)
            yield Step(f"{member} {'is paused' if kind == 'pause' else 'stops polling'}", (stands,))
            yield Step(f"{member} continues", (Resume(member),))
