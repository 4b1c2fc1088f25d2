"""Scenarios drawn from a seed. The same seed gives the same scenario on every machine. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from kafka_assignors.errors import ConfigError, UnknownName

from .actions import Action, Cut, Delay, Drop, Heal, Join, Reset
from .catalogue import SCENARIOS, Scenario, Step, scenario
from .clients import REQUEST_TIMEOUT
from .soak import soak

_MEMBERS = ("m1", "m2", "m3")
_SESSION_MS = 2000
_APIS = ("Heartbeat", "Fetch", "OffsetCommit")
"""Requests that a member of a stable group sends unprompted. A fault on another request might wait forever."""


def chaos(seed: int, steps: int = 5) -> Scenario:
    """Three members under load, and `steps` network faults, of one member after another. The seed decides them all."""
    draw = random.Random(seed)
    played = [Step("three members join", tuple(map(Join, _MEMBERS)))]
    for number in range(1, steps + 1):
        played += _fault(draw, number)
    return Scenario(
        "chaos",
        f"Three members, and {steps} network faults drawn from seed {seed}.",
        tuple(played),
        topics={"orders": 8, "payments": 4},
        session_timeout_ms=_SESSION_MS,
        # a step may take a lost answer, the end of a session and a rejoin
        gap_ms=12_000,
        consumer={REQUEST_TIMEOUT: 2500},
    )


DRAWN: Mapping[str, Callable[[int], Scenario]] = {"chaos": chaos, "soak": soak}
"""Name -> function that draws a scenario from a seed."""


def named(name: str, seed: int | None = None) -> Scenario:
    """The scenario of that name in `scenario.SCENARIOS`, or in `DRAWN` with this seed (None: 0).

    Raises:
        UnknownName: No scenario has this name; the message lists the known ones.
        ConfigError: The scenario has nothing random, so it takes no seed.
    """
    if name in DRAWN:
        return DRAWN[name](seed or 0)
    if name not in SCENARIOS:
        raise UnknownName("scenario", name, (*SCENARIOS, *DRAWN))
    if seed is not None:
        raise ConfigError(f"scenario {name!r} has no random part; remove the seed {seed}, or run {', '.join(DRAWN)}")
    return scenario(name)


def _fault(draw: random.Random, number: int) -> Sequence[Step]:
    member = draw.choice(_MEMBERS)
    kind = draw.choice(("cut", "short cut", "delay", "drop", "reset", "reset all"))
    action: Action
    if kind == "cut":
        return (
            Step(f"{number}: {member} is cut off", (Cut(member),)),
            Step(f"{number}: {member} returns", (Heal(member),)),
        )
    if kind == "short cut":
        action = Cut(member, for_ms=draw.randrange(100, _SESSION_MS // 2))
    elif kind == "delay":
        ms = draw.randrange(50, 2 * _SESSION_MS)
        action = Delay(member, ms, draw.choice(_APIS), draw.choice(("request", "answer")), times=draw.randint(1, 2))
    elif kind == "drop":
        action = Drop(member, draw.choice(_APIS), draw.choice(("request", "answer")))
    elif kind == "reset":
        action = Reset(member, draw.choice(_APIS), draw.choice(("request", "answer")), times=draw.randint(1, 5))
    else:
        action = Reset(member, times=draw.randint(1, 3), every_ms=draw.randrange(100, 1000))
    return (Step(f"{number}: {kind} of {member}", (action,)),)
