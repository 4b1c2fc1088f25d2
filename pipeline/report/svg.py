"""The page's drawings as SVG, without scripts and external resources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor

from markupsafe import Markup

from kafka_assignors.drawing import axis_time, colours, escaped, legend, short
from kafka_assignors.history.departures import UNPROVEN

WIDTH = 980
LABEL = 190  # px for the names left of a timeline
NAMED = 24  # members in the legend
EACH = 80  # up to this many partitions get a shape with a tooltip each; more are drawn as one


@dataclass(frozen=True)
class DrawnInterval:
    """One ownership interval of a topic-partition, as in `schema.GROUP_TIMELINE`; times in ns."""

    topic: str
    partition: int
    member: str
    start_ns: int
    end_ns: int
    end_kind: str
    overlap_prev_ms: float
    source: str = "callback"
    first_commit_ns: int | None = None
    last_commit_ns: int | None = None

    @property
    def shown(self) -> tuple[int, int] | None:
        """The time in which its member is known to have consumed; None if unknown."""
        if self.source == "callback":
            return self.start_ns, self.end_ns
        if self.first_commit_ns is None or self.last_commit_ns is None:
            return None
        return self.first_commit_ns, self.last_commit_ns


def bars(loads: Sequence[float], hot: Mapping[int, float], what: str, height: int = 150) -> Markup:
    """Load per partition (index = partition), its largest key's part in another colour, a dashed line at the mean."""
    top, bottom, left = 18, 18, 4
    most, mean = max(loads, default=0), sum(loads) / max(1, len(loads))
    scale = (height - top - bottom) / most if most else 0
    step = (WIDTH - 2 * left) / max(1, len(loads))
    base = height - bottom
    out = [_open(height, f"{what} per partition")]
    if len(loads) <= EACH:
        wide = min(60.0, max(1.0, step - min(3.0, step / 4)))
        for p, load in enumerate(loads):
            x, y = left + (p + 0.5) * step - wide / 2, base - load * scale
            label = f"partition {p}: {load:,.0f} {what}, {load / mean if mean else 0:.2f} x the mean"
            label += f"; its largest key {hot[p]:,.0f}" if hot.get(p) else ""
            out.append(f"<g><title>{escaped(label)}</title>")
            out.append(f'<rect class="bar" x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{load * scale:.1f}"/>')
            if p in hot and (part := min(hot[p], load)):
                at = base - part * scale
                out.append(
                    f'<rect class="hot" x="{x:.1f}" y="{at:.1f}" width="{wide:.1f}" height="{part * scale:.1f}"/>'
                )
            out.append("</g>")
    else:
        out.append(f'<path class="bar" d="{_steps(loads, left, step, base, scale)}"/>')
        parts = [min(hot.get(p, 0), load) for p, load in enumerate(loads)]
        if any(parts):
            out.append(f'<path class="hot" d="{_steps(parts, left, step, base, scale)}"/>')
    y = base - mean * scale
    out.append(f'<line class="mean" x1="{left}" x2="{WIDTH - left}" y1="{y:.1f}" y2="{y:.1f}"/>')
    fullest = max(range(len(loads)), key=loads.__getitem__, default=0)
    anchor = "start" if fullest < len(loads) / 2 else "end"
    at = left + (fullest + (0 if anchor == "start" else 1)) * step
    out.append(f'<text x="{at:.1f}" y="{top - 6}" text-anchor="{anchor}">partition {fullest}: {most:,.0f}</text>')
    every = next(n for n in (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 10**9) if len(loads) / n <= 26)
    for p in range(0, len(loads), every):
        out.append(
            f'<text class="dim" x="{left + (p + 0.5) * step:.1f}" y="{height - 4}" text-anchor="middle">{p}</text>'
        )
    return Markup("".join(out) + "</svg>")


def over_time(values: Sequence[float], labels: Sequence[str], what: str, height: int = 70) -> Markup:
    """A topic's load per window, from the first to the last."""
    base, most = height - 16, max(values, default=0)
    scale = (base - 6) / most if most else 0
    step = (WIDTH - 8) / max(1, len(values))
    out = [_open(height, f"{what} over time"), f'<path class="bar" d="{_steps(values, 4, step, base, scale)}"/>']
    if len(values) <= 240:
        for i, (value, label) in enumerate(zip(values, labels, strict=True)):
            tip = escaped(f"{label}: {value:,.0f} {what}")
            out.append(
                f'<rect class="none" x="{4 + i * step:.1f}" y="0" width="{step:.1f}" height="{base}">'
                f"<title>{tip}</title></rect>"
            )
    if labels:
        out.append(f'<text class="dim" x="4" y="{height - 3}">{escaped(labels[0])}</text>')
        if len(labels) > 1:
            out.append(
                f'<text class="dim" x="{WIDTH - 4}" y="{height - 3}" text-anchor="end">{escaped(labels[-1])}</text>'
            )
    return Markup("".join(out) + "</svg>")


def lines(rules: Mapping[str, Sequence[tuple[int, float]]], height: int = 220) -> Markup:
    """Fullest / mean partition per partition count, a line per rule; the scale starts at 1."""
    points = [point for series in rules.values() for point in series]
    counts, most = sorted({n for n, _ in points}), max([2.0, *(value for _, value in points)])
    base, left = height - 18, 40

    def place(n: int, value: float) -> tuple[float, float]:
        at = counts.index(n) / max(1, len(counts) - 1)
        return left + 8 + (WIDTH - left - 30) * at, base - (base - 12) * (value - 1) / (most - 1)

    colour = colours(rules)
    key, low = legend(((f'fill="{shade}"', rule) for rule, shade in colour.items()), WIDTH, height)
    out = [_open(low, "fullest / mean partition per partition count"), *key]
    for value in range(1, floor(most) + 1, max(1, ceil((most - 1) / 4))):
        y = place(counts[0], value)[1]
        out.append(f'<line class="grid" x1="{left}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        out.append(f'<text class="dim" x="0" y="{y + 4:.1f}">{value:,}</text>')
    for n in counts:
        x = place(n, 1)[0]
        out.append(f'<text class="dim" x="{x:.1f}" y="{height - 4}" text-anchor="middle">{n}</text>')
    for rule, series in rules.items():
        line = [place(n, value) for n, value in sorted(series)]
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in line)
        out.append(f'<polyline fill="none" stroke="{colour[rule]}" stroke-width="2" points="{corners}"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour[rule]}"/>' for x, y in line]
    return Markup("".join(out) + "</svg>")


def timeline(intervals: Sequence[DrawnInterval], colour: Mapping[str, str], marks: Sequence[tuple[int, str]]) -> Markup:
    """Ownership: a row per topic-partition, a bar per interval, double owners framed, lines at `marks` (ns, text)."""
    rows = {tp: i for i, tp in enumerate(sorted({(iv.topic, iv.partition) for iv in intervals}))}
    separate_rows = len(rows) <= EACH
    pitch = 15.0 if separate_rows else max(1.0, 900 / len(rows))
    start = min([iv.start_ns for iv in intervals] + [at for at, _ in marks])
    end = max([iv.end_ns for iv in intervals] + [at for at, _ in marks])
    top, height = 16, int(16 + pitch * len(rows) + 22)
    bottom = top + pitch * len(rows)

    def x(ns: int) -> float:
        return LABEL + (WIDTH - LABEL - 6) * (ns - start) / max(1, end - start)

    named = [(f'fill="{shade}"', short(name, 34)) for name, shade in [*colour.items()][:NAMED]]
    named += [('class="none"', f"and {len(colour) - NAMED} more")] if len(colour) > NAMED else []
    key, low = legend(named, WIDTH, height)
    out = [_open(low, "ownership over time"), *_row_names(rows, top, pitch, separate_rows)]
    together: dict[str, list[str]] = {}
    for iv in intervals:
        y, left = top + pitch * rows[iv.topic, iv.partition], x(iv.start_ns)
        wide, tall = max(0.8, x(iv.end_ns) - left), pitch - (3 if separate_rows else 0.2 * pitch)
        if separate_rows:
            tip = (
                f"{iv.topic}-{iv.partition} at {iv.member}: {(iv.start_ns - start) / 1e9:.3f} s to "
                f"{(iv.end_ns - start) / 1e9:.3f} s, then {iv.end_kind}"
            )
            pale = f' fill-opacity="0.35" stroke="{colour[iv.member]}"' if iv.source == "coordlog" else ""
            out.append(
                f'<rect x="{left:.1f}" y="{y + 1:.1f}" width="{wide:.1f}" height="{tall:.1f}" rx="2" '
                f'fill="{colour[iv.member]}"{pale}><title>{escaped(tip)}</title></rect>'
            )
            if pale and iv.shown is not None:
                at, to = map(x, iv.shown)
                out.append(
                    f'<rect class="shown" x="{at:.1f}" y="{y + 1:.1f}" width="{max(0.8, to - at):.1f}" '
                    f'height="{tall:.1f}" rx="2" fill="{colour[iv.member]}"><title>{escaped(tip)}</title></rect>'
                )
        else:
            together.setdefault(iv.member, []).append(f"M{left:.1f} {y:.1f}h{wide:.1f}v{tall:.2f}h-{wide:.1f}z")
    for member, paths in together.items():
        out.append(f'<path fill="{colour[member]}" d="{"".join(paths)}"><title>{escaped(member)}</title></path>')
    for iv in intervals:
        y = top + pitch * rows[iv.topic, iv.partition]
        if iv.overlap_prev_ms > 0:
            to = min(iv.end_ns, iv.start_ns + int(iv.overlap_prev_ms * 1e6))
            wide = max(1.5, x(to) - x(iv.start_ns))
            out.append(
                f'<rect class="twice" x="{x(iv.start_ns):.1f}" y="{y:.1f}" width="{wide:.1f}" '
                f'height="{max(1.5, pitch - 1):.1f}"><title>two owners for {iv.overlap_prev_ms:,.1f} ms</title></rect>'
            )
        if separate_rows and (sign := {"killed": "×", "lost": "×", UNPROVEN: "?"}.get(iv.end_kind)):
            out.append(f'<text class="cross" x="{x(iv.end_ns) - 4:.1f}" y="{y + 11:.1f}">{sign}</text>')
    for at, text in marks:
        out.append(
            f'<line class="mark" x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{top - 2}" y2="{bottom:.0f}">'
            f"<title>{escaped(text)}</title></line>"
        )
    out += _seconds(start, end, x, height - 6)
    return Markup("".join([*out, *key]) + "</svg>")


def _row_names(rows: Mapping[tuple[str, int], int], top: int, pitch: float, separate_rows: bool) -> Iterable[str]:
    named: set[str] = set()
    lowest = 0.0
    for (topic, partition), i in rows.items():
        y = top + pitch * i
        if separate_rows:
            full = f"{topic}-{partition}"
            label = f"{short(topic, 22)}-{partition}"
            yield f'<text x="0" y="{y + 11:.1f}">{escaped(label)}<title>{escaped(full)}</title></text>'
        elif topic not in named and (not named or y >= lowest):
            yield f'<text x="0" y="{y + 9:.1f}">{escaped(short(topic))}<title>{escaped(topic)}</title></text>'
            yield f'<line class="grid" x1="0" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
            lowest = y + 13
        named.add(topic)


def _seconds(start: int, end: int, x: Callable[[int], float], y: float) -> Iterable[str]:
    seconds = (end - start) / 1e9
    ticks = (0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400, 604800, 1e12)
    tick = next(s for s in ticks if seconds / s <= 11)
    for k in range(int(seconds / tick) + 1):
        at, label = x(start + int(k * tick * 1e9)), axis_time(k * tick, tick)
        anchor = ' text-anchor="end"' if at + 7 * len(label) > WIDTH else ""
        yield f'<text class="dim" x="{at:.1f}" y="{y:.0f}"{anchor}>{label}</text>'


def _steps(values: Sequence[float], left: float, step: float, base: float, scale: float) -> str:
    tops = "".join(f"V{base - value * scale:.1f}h{step:.3f}" for value in values)
    return f"M{left} {base}{tops}V{base}z"


def _open(height: float, label: str) -> str:
    size = f'width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}"'
    return f'<svg {size} role="img" aria-label="{escaped(label)}">'
