"""The two clocks of a run's processes, held against each other. Pure.

All processes of one boot share the monotonic clock, which orders their events, and the wall clock. Who writes its
events itself reads both at once, so at one moment wall minus monotonic is the same in every file. What comes with a
time of the wall clock alone (the coordinator log, members of other clients) was put on the monotonic clock by what
that difference was as its reader began; where the wall clock was set, or slewed, meanwhile, it is put there anew.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from kafka_assignors.history.events import Event

APART_MS = 250
"""How far the clocks of a process may seem to be from the others': reading both takes time on a busy machine."""
BACK_MS = 100
"""How far time may fall within a file: threads that write one file may be overtaken."""
MOVED_MS = 20
"""From what on the wall clock is taken to have been set or slewed."""
_MS = 1_000_000
_SAMPLES, _NEAREST = 200, 7
_CLIENTS = (None, "kafka-python", "aiokafka")
"""Members that read both clocks themselves."""


class _Sample(NamedTuple):
    at_ns: int  # on the clock by which samples are looked up
    offset_ns: int  # wall minus monotonic
    file: str


def problems(files: Mapping[str, Sequence[Event]]) -> Iterator[str]:
    """Files whose times can't be those of one machine: file name -> its events, as written."""
    direct = {name: events for name, events in files.items() if events and _reads_both(events[0])}
    samples = sorted(_Sample(e.mono_ns, e.ts_ns - e.mono_ns, name) for name, its in direct.items() for e in _some(its))
    for name, events in direct.items():
        mine = [sample for sample in samples if sample.file == name]
        others = [sample for sample in samples if sample.file != name]
        if others:
            apart_ns = median(sample.offset_ns - _offset(others, sample.at_ns) for sample in mine)
            if abs(apart_ns) > APART_MS * _MS:
                yield (
                    f"{name}: its monotonic clock is {apart_ns / -_MS:+.0f} ms from that of the other processes: they "
                    "aren't of one boot of one machine, or the file was changed"
                )
        latest = 0
        for event in events:
            if event.mono_ns < latest - BACK_MS * _MS:
                yield f"{name}: time falls by {(latest - event.mono_ns) / _MS:.0f} ms at seq {event.seq}"
                break
            latest = max(latest, event.mono_ns)


def retimed(files: Mapping[str, Sequence[Event]]) -> dict[str, list[Event]]:
    """The files, with what came by the wall clock alone on the monotonic clock as that was then.

    Nothing changes where the wall clock did not move by more than `MOVED_MS`.
    """
    samples = sorted(
        _Sample(e.ts_ns, e.ts_ns - e.mono_ns, name)
        for name, its in files.items()
        if its and _reads_both(its[0])
        for e in _some(its)
    )
    calm = sorted(sample.offset_ns for sample in samples)
    # A process that was held up between its two readings is an outlier, so the outer hundredths don't count.
    edge = len(calm) // 100
    if not calm or calm[-1 - edge] - calm[edge] <= MOVED_MS * _MS:
        return {name: list(its) for name, its in files.items()}
    found: dict[str, list[Event]] = {}
    for name, its in files.items():
        found[name] = list(its)
        if its and not _reads_both(its[0]):
            latest = 0
            for at, event in enumerate(its):
                mono_ns = event.ts_ns - _offset(samples, event.ts_ns)
                # A member's own events stay in their order; the coordinator log's are taken as they are.
                latest = max(latest, mono_ns) if event.src == "member" else mono_ns
                found[name][at] = replace(event, mono_ns=latest)
    return found


def _reads_both(event: Event) -> bool:
    return event.src != "coordlog" and (event.src != "member" or event.client in _CLIENTS)


def _some(events: Sequence[Event]) -> Sequence[Event]:
    """Enough of many to know the clock by."""
    return events[:: max(1, len(events) // _SAMPLES)]


def _offset(samples: Sequence[_Sample], at_ns: int) -> int:
    """The median of those around a time."""
    at = bisect_left(samples, at_ns, key=lambda sample: sample.at_ns)
    near = samples[max(0, at - _NEAREST) : at + _NEAREST]
    nearest = sorted(near, key=lambda sample: abs(sample.at_ns - at_ns))[:_NEAREST]
    return int(median(sample.offset_ns for sample in nearest))
