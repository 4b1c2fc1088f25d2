"""Compares the monotonic and wall clocks of a run's processes. Pure.

All processes of one boot share the monotonic clock, which orders their events, and the wall clock. A process that
writes its own events reads both clocks at once, so wall minus monotonic is the same in every file at any moment.
The coordinator log and members of other clients have wall-clock times only. Their reader converted these to monotonic
time by the difference at its start. If the wall clock was set or slewed during the run, we convert them again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from kafka_assignors.history.events import WIRE, Event

APART_MS = 250
"""Largest accepted offset of one process's clocks from the others'; reading both takes time on a busy machine."""
BACK_MS = 100
"""Largest accepted step back in time within a file: threads that write the same file may overtake each other."""
MOVED_MS = 20
"""If wall minus monotonic varies by more than this, the wall clock was set or slewed."""
_MS = 1_000_000
_SAMPLES, _NEAREST = 200, 7
_CLIENTS = (None, "kafka-python", "aiokafka", "confluent-kafka", WIRE)
"""Clients whose members, or whoever tells of them, read both clocks."""


class _Sample(NamedTuple):
    at_ns: int  # on the clock used to look samples up
    offset_ns: int  # wall minus monotonic
    file: str


def problems(files: Mapping[str, Sequence[Event]]) -> Iterator[str]:
    """Files whose times cannot come from one machine; ``files`` maps a file name to its events in written order."""
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
                    "are not from one boot of one machine, or the file was changed"
                )
        latest = 0
        for event in events:
            if event.mono_ns < latest - BACK_MS * _MS:
                yield f"{name}: time goes back by {(latest - event.mono_ns) / _MS:.0f} ms at seq {event.seq}"
                break
            latest = max(latest, event.mono_ns)


def retimed(files: Mapping[str, Sequence[Event]]) -> dict[str, list[Event]]:
    """The files, with wall-clock-only times converted to the monotonic clock by the difference at that moment.

    Nothing changes if the wall clock moved by at most `MOVED_MS`.
    """
    samples = sorted(
        _Sample(e.ts_ns, e.ts_ns - e.mono_ns, name)
        for name, its in files.items()
        if its and _reads_both(its[0])
        for e in _some(its)
    )
    calm = sorted(sample.offset_ns for sample in samples)
    # A process delayed between its two readings is an outlier, so we ignore the outer hundredths.
    edge = len(calm) // 100
    if not calm or calm[-1 - edge] - calm[edge] <= MOVED_MS * _MS:
        return {name: list(its) for name, its in files.items()}
    corrected_files: dict[str, list[Event]] = {}
    for name, its in files.items():
        corrected_files[name] = list(its)
        if its and not _reads_both(its[0]):
            latest = 0
            for at, event in enumerate(its):
                mono_ns = event.ts_ns - _offset(samples, event.ts_ns)
                # A member's own events keep their order; those of the coordinator log need not.
                latest = max(latest, mono_ns) if event.src == "member" else mono_ns
                corrected_files[name][at] = replace(event, mono_ns=latest)
    return corrected_files


def _reads_both(event: Event) -> bool:
    return event.src != "coordlog" and (event.src != "member" or event.client in _CLIENTS)


def _some(events: Sequence[Event]) -> Sequence[Event]:
    """A sample of the events, large enough to estimate the clock difference."""
    return events[:: max(1, len(events) // _SAMPLES)]


def _offset(samples: Sequence[_Sample], at_ns: int) -> int:
    """Median offset of the samples nearest to a time."""
    at = bisect_left(samples, at_ns, key=lambda sample: sample.at_ns)
    near = samples[max(0, at - _NEAREST) : at + _NEAREST]
    nearest = sorted(near, key=lambda sample: abs(sample.at_ns - at_ns))[:_NEAREST]
    return int(median(sample.offset_ns for sample in nearest))
