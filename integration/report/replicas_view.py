"""How long the processes of a service, or of an orchestrated run, took to start and to stop. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kafka_assignors.history.events import Event, is_of
from kafka_assignors.history.events.bodies import AssignedEndBody, ExitBody, FaultBeginBody, GenerationBody

from ..history import History
from .service_view import is_of_service

_NS = 1_000_000_000


@dataclass(frozen=True)
class Replica:
    """One process of a group."""

    name: str  # of the member that it was
    incarnation: int
    start_s: float | None  # from its start until it had its first assignment; None: it never got one
    stop_s: float | None  # from the request to end until its end; None: it was not asked to while the scenario played
    grace_s: float | None  # how long it was allowed to run after that request; None: as long as it likes
    killed: bool  # whether it still ran then, and was killed

    @property
    def label(self) -> str:
        """Its name, and which start of it this was."""
        return f"{self.name} (start {self.incarnation + 1})" if self.incarnation else self.name


def replicas_of(history: History, group: str) -> tuple[Replica, ...]:
    """The processes of a group by their start; empty if they are members of the harness without a grace to end in."""
    adopted: dict[tuple[str | None, int], int] = {}
    kills: set[tuple[str | None, int]] = set()
    ends: list[tuple[int, Event[ExitBody]]] = []
    of_service = False
    for event in history.events:
        if event.group != group:
            continue
        process = event.member, event.incarnation
        of_service = of_service or is_of_service(event)
        if is_of(event, GenerationBody) or is_of(event, AssignedEndBody):
            adopted.setdefault(process, event.mono_ns)
        elif is_of(event, FaultBeginBody) and event.body.fault == "kill":
            kills.add(process)
        elif is_of(event, ExitBody) and event.body.begun_ns is not None:
            ends.append((event.body.begun_ns, event))
    if not of_service and all(end.body.grace_s is None for _, end in ends):
        return ()
    return tuple(
        _replica(begun_ns, end, adopted.get((end.member, end.incarnation)), (end.member, end.incarnation) in kills)
        for begun_ns, end in sorted(ends, key=lambda pair: pair[0])
    )


def _replica(begun_ns: int, end: Event[ExitBody], adopted_ns: int | None, was_killed: bool) -> Replica:
    start_s = None if adopted_ns is None else (adopted_ns - begun_ns) / _NS
    if end.body.asked_ns is None:
        return Replica(end.member or "", end.incarnation, start_s, None, None, killed=False)
    stop_s, grace_s = (end.mono_ns - end.body.asked_ns) / _NS, end.body.grace_s
    return Replica(end.member or "", end.incarnation, start_s, stop_s, grace_s, killed=was_killed)


def replica_lines(processes: Sequence[Replica]) -> Iterator[str]:
    """Sentences: how long each took to start and to stop, and what to do about kills."""
    if not processes:
        return
    times = [f"{row.label} {'never' if row.start_s is None else f'{row.start_s:.1f} s'}" for row in processes]
    yield f"from start to first assignment: {', '.join(times)}"
    stops = [
        f"{row.label} {row.stop_s:.1f} s{' (killed)' if row.killed else ''}"
        for row in processes
        if row.stop_s is not None
    ]
    if stops:
        yield f"from the request to end to the end: {', '.join(stops)}"
    yield from killed_lines(processes)


def killed_lines(processes: Sequence[Replica]) -> Iterator[str]:
    """A sentence per grace that was too short: for whom, and what a kill costs."""
    by_grace: dict[float | None, list[str]] = {}
    for row in processes:
        if row.killed:
            by_grace.setdefault(row.grace_s, []).append(row.label)
    for grace_s, names in by_grace.items():
        yield (
            f"{', '.join(names)} still ran after {grace_s:g} s and had to be killed: end in time after SIGTERM, or "
            "give a longer grace; unless it has left, a group keeps a killed member's partitions until its session ends"
        )
