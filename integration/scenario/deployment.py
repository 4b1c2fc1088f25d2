"""A deployment and an autoscaler as an orchestrator plays them: how many at a time, and within which grace. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from kafka_assignors.errors import ConfigError

from .actions import Join
from .catalogue import GRACE_S, SCENARIOS, SIZES, Scenario, Step, graceful, in_words, number_word, replacing, scaling

REPLICAS = 5
"""How many members ``roll`` replaces."""
MOST_REPLICAS = 64
"""Each is a process on this machine."""
_SIZES = re.compile(r"\d{1,9}(\.\.\d{1,9})+")


def orchestrated(
    what: Scenario,
    *,
    surge: int | None = None,
    grace_s: float | None = None,
    sizes: str | None = None,
    replicas: int | None = None,
) -> Scenario:
    """A scenario with the options of an orchestrator; without any, the scenario itself.

    Args:
        what: ``roll`` or ``scale`` of the catalogue, if there is an option.
        surge: Of ``roll``: how many new members start before as many old ones are asked to end; 0: an old one ends
            before its replacement starts. None with `grace_s`: 1.
        grace_s: How long a member may run after it was asked to end, in seconds, before it is killed. None with another
            option: `GRACE_S`. Members hand their partitions over for at most half of it.
        sizes: Of ``scale``: the group's sizes, such as ``3..8..3``.
        replicas: Of ``roll``: how many members are replaced; None: `REPLICAS`.

    Raises:
        ConfigError: An option is for another scenario, or has no such value.

    >>> [step.name for step in orchestrated(SCENARIOS["roll"], surge=2, replicas=3).steps[1:]]
    ['the replacements of m1 and m2 join', 'm1 and m2 leave', 'the replacement of m3 joins', 'm3 leaves']
    """
    rolls, scales = what is SCENARIOS["roll"], what is SCENARIOS["scale"]
    if surge is not None and not rolls:
        raise ConfigError(f"--surge {surge} is for scenario roll, and {what.name!r} replaces no member; remove it")
    if sizes is not None and not scales:
        raise ConfigError(f"--sizes {sizes} is for scenario scale, and {what.name!r} has one of its own; remove it")
    if grace_s is not None and not (rolls or scales):
        raise ConfigError(
            f"--grace {grace_s:g} is for scenarios roll and scale; {what.name!r} is played without it; remove it"
        )
    if grace_s is not None and not 0 < grace_s < math.inf:
        raise ConfigError(f"--grace {grace_s:g} is no time from SIGTERM to SIGKILL; give seconds above 0, such as 30")
    if rolls:
        return _rolled(what, surge, grace_s, _count(replicas))
    if scales and (sizes is not None or grace_s is not None):
        usual = "..".join(map(str, SIZES))
        return _scaled(what, usual if sizes is None else sizes, GRACE_S if grace_s is None else grace_s)
    return what


def _count(replicas: int | None) -> int:
    if replicas is not None and not 1 <= replicas <= MOST_REPLICAS:
        raise ConfigError(f"--replicas {replicas} is no number of processes to replace; give 1 to {MOST_REPLICAS}")
    return REPLICAS if replicas is None else replicas


def _rolled(what: Scenario, surge: int | None, grace_s: float | None, replicas: int) -> Scenario:
    members = [f"m{number}" for number in range(1, replicas + 1)]
    if surge is None and grace_s is None:
        return what if replicas == REPLICAS else replace(what, steps=replacing(members))
    surge = 1 if surge is None else surge
    grace_s = GRACE_S if grace_s is None else grace_s
    if not 0 <= surge <= replicas:
        raise ConfigError(
            f"--surge {surge} is no number of new processes for {replicas} old ones; give 0 to {replicas}"
        )
    if surge:
        order = f"{number_word(surge)} at a time: new ones join, then as many old ones are asked to end"
    else:
        order = "one at a time: an old one is asked to end, then a new one joins"
    about = f"{in_words(replicas).capitalize()} are replaced under load, {order}. {_killed(grace_s)}"
    first = Step(f"{in_words(replicas)} join", tuple(map(Join, members)))
    return replace(what, about=about, steps=(first, *_replacements(members, surge, grace_s)))


def _replacements(members: Sequence[str], surge: int, grace_s: float) -> Iterator[Step]:
    if not surge:
        for m in members:
            yield Step(f"{m} leaves, its replacement joins", (graceful(m, grace_s), Join(f"{m}-new")))
        return
    for at in range(0, len(members), surge):
        batch = members[at : at + surge]
        names, alone = _listed(batch), len(batch) == 1
        yield Step(
            f"the replacement{'' if alone else 's'} of {names} join{'s' if alone else ''}",
            tuple(Join(f"{m}-new") for m in batch),
        )
        yield Step(f"{names} leave{'s' if alone else ''}", tuple(graceful(m, grace_s) for m in batch))


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _scaled(what: Scenario, sizes: str, grace_s: float) -> Scenario:
    if _SIZES.fullmatch(sizes) is None:
        raise ConfigError(f"--sizes {sizes!r} is not A..B..C, such as 3..8..3")
    numbers = [int(size) for size in sizes.split("..")]
    if not all(1 <= size <= MOST_REPLICAS for size in numbers):
        raise ConfigError(f"--sizes {sizes}: each is a number of processes from 1 to {MOST_REPLICAS}")
    if same := next((size for size, following in pairwise(numbers) if size == following), None):
        raise ConfigError(f"--sizes {sizes}: {same} follows {same}, which changes nothing; remove one")
    course = ", then ".join(map(number_word, numbers))
    return replace(
        what,
        about=f"An autoscaler under load: {course} members, one at a time. {_killed(grace_s)}",
        steps=tuple(scaling(numbers, grace_s)),
    )


def _killed(grace_s: float) -> str:
    return f"A member that still runs {grace_s:g} s after it was asked to end is killed."
