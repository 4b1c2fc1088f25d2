"""Draws a group's ownership timeline as SVG."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup

from kafka_assignors.drawing import axis_time, colours, escaped, legend, short

from .time_axis import CUT_PX, TimeAxis
from .timeline_view import GAP, OVERLAP, OWNED, SHARED, ZOMBIE, Mark, TimelineView

LABEL_PX, PLOT_PX = 160, 760
"""Width of the column of names, and of the time axis."""
_SIDE_PX = 86
WIDTH_PX = LABEL_PX + PLOT_PX + 2 * (_SIDE_PX + 14) + 4
_LANE_PX, _TALL_ROW_PX, _LOW_ROW_PX, _MANY_ROWS = 17, 16, 10, 40
_LABEL_EVERY_PX, _NEAR_PX = 17, 30
_LABEL = 25
"""Characters of a row's name."""


def svg(view: TimelineView, name: str) -> Markup:
    """The timeline as SVG; `name` makes its pattern ids unique on the page.

    The lanes at the top show faults, steps and generations. Each topic-partition has a row, with its downtime and its
    records beside it.
    """
    row_px = _TALL_ROW_PX if len(view.rows) <= _MANY_ROWS else _LOW_ROW_PX
    top = 3 * _LANE_PX + 8
    bottom = top + row_px * len(view.rows)
    colour_of = colours(view.members)

    axis = axis_of(view)

    def x(seconds: float) -> float:
        return LABEL_PX + axis.x(seconds)

    key, height = legend([(f'fill="{colour}"', member) for member, colour in colour_of.items()], WIDTH_PX, bottom + 24)
    states, height = legend(_states(name), WIDTH_PX, height)
    out = [
        f'<svg width="{WIDTH_PX}" height="{height:.0f}" viewBox="0 0 {WIDTH_PX} {height:.0f}" role="img" '
        f'aria-label="who owned which topic-partition when">',
        *_patterns(name, colour_of),
        *_fault_bands(view.faults, x, bottom),
    ]
    for lane, label in enumerate(("faults", "steps", "generations")):
        out.append(f'<text class="dim" x="0" y="{12 + _LANE_PX * lane}">{label}</text>')
    topic = ""
    for i, tp in enumerate(view.rows):
        y = top + row_px * i
        row_label = f"{tp.topic}-{tp.partition}" if tp.topic != topic or row_px == _TALL_ROW_PX else f"-{tp.partition}"
        if tp.topic != topic:
            out.append(f'<line class="topic" x1="0" x2="{WIDTH_PX}" y1="{y}" y2="{y}"/>')
        topic = tp.topic
        size = "" if row_px == _TALL_ROW_PX else ' style="font-size:9px"'
        out.append(
            f'<text x="0" y="{y + row_px - 4}"{size}>{escaped(short(row_label, _LABEL))}'
            f"<title>{escaped(row_label)}</title></text>"
        )
    for bar in view.bars:
        y, left = top + row_px * bar.row, x(bar.start_s)
        width = max(1.2, x(bar.end_s) - left)
        if bar.kind == OWNED:
            look = f'fill="{colour_of[bar.member]}" rx="2"'
        elif bar.kind == ZOMBIE:
            look = f'fill="url(#{name}-{view.members.index(bar.member)})" rx="2"'
        elif bar.kind == SHARED:
            look = f'fill="{colour_of[bar.member]}" class="shared"'
        else:
            look = f'class="{bar.kind}"'
        inset = 1 if bar.kind in (GAP, OVERLAP) else 2
        height = row_px // 2 - inset if bar.kind == SHARED else row_px - 2 * inset  # leaves the zombie's half visible
        out.append(
            f'<rect x="{left:.1f}" y="{y + inset}" width="{width:.1f}" height="{height}" {look}>'
            f"<title>{escaped(bar.title)}</title></rect>"
        )
    out += _cuts(axis, top, bottom)
    out += _marks(view.steps, x, 12 + _LANE_PX, bottom, "mark")
    out += _marks(view.generations, x, 12 + 2 * _LANE_PX, top, "tick")
    left = LABEL_PX + PLOT_PX + 14
    out += _side(view.downtime_ms, left, top, row_px, "ms down", GAP)
    out += _side(view.records, left + _SIDE_PX + 14, top, row_px, "records", "bar")
    out += _seconds(axis, bottom + 16)
    return Markup("".join([*out, *key, *states]) + "</svg>")


def axis_of(view: TimelineView) -> TimeAxis:
    """The axis of a group's drawings; time in which nothing changes is cut."""
    edges = [at for bar in view.bars for at in (bar.start_s, bar.end_s)]
    faults = [at for fault in view.faults for at in (fault.at_s, fault.end_s or fault.at_s)]
    marks = [mark.at_s for mark in (*view.steps, *view.generations)]
    return TimeAxis.of(view.seconds, PLOT_PX, [*edges, *faults, *marks])


def _cuts(axis: TimeAxis, top: int, bottom: int) -> list[str]:
    out = []
    for cut in axis.cuts:
        left, title = LABEL_PX + axis.x(cut.from_s), f"{cut.to_s - cut.from_s:.1f} s in which nothing changes are cut"
        out.append(
            f'<rect class="ground" x="{left:.1f}" y="{top}" width="{CUT_PX:g}" height="{bottom - top}">'
            f"<title>{title}</title></rect>"
        )
        out += [
            f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>' for x in (left, left + CUT_PX)
        ]
    return out


def _seconds(axis: TimeAxis, y: int) -> list[str]:
    """Labels of the axis, and of its cuts; a label that would touch another one is left out."""
    middles = [(axis.x(cut.from_s) + CUT_PX / 2, f"{cut.to_s - cut.from_s:.0f} s cut") for cut in axis.cuts]
    wanted = [*middles, *((axis.x(at), axis_time(at, axis.tick_s)) for at in axis.ticks())]
    taken: list[tuple[float, float]] = []
    out = []
    for at, label in wanted:
        half = 3.2 * len(label) + 3
        if all(at + half <= left or at - half >= right for left, right in taken):
            taken.append((at - half, at + half))
            out.append(f'<text class="dim" x="{LABEL_PX + at:.1f}" y="{y}" text-anchor="middle">{label}</text>')
    return out


def _states(name: str) -> list[tuple[str, str]]:
    """The legend of what is no member, in a row of its own."""
    return [
        ('class="gap"', "nobody"),
        ('class="overlap"', "two owners"),
        (f'fill="url(#{name}-0)"', "zombie: can't know what it lost (half as high beside an owner)"),
        ('class="fault"', "fault"),
    ]


def _patterns(name: str, colour_of: Mapping[str, str]) -> list[str]:
    """A hatch per member in its colour: a zombie only believes that it owns the partition."""
    return [
        f'<pattern id="{name}-{i}" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<rect width="5" height="5" class="ground"/><rect width="2" height="5" fill="{colour}"/></pattern>'
        for i, colour in enumerate(colour_of.values())
    ]


def _fault_bands(faults: Sequence[Mark], x: Callable[[float], float], bottom: int) -> list[str]:
    out = []
    free_px = 0.0
    for fault in sorted(faults, key=lambda mark: mark.at_s):
        left, right = x(fault.at_s), x(fault.end_s or fault.at_s)
        out.append(
            f'<rect class="fault" x="{left:.1f}" y="2" width="{max(2.0, right - left):.1f}" height="{bottom - 2}">'
            f"<title>{escaped(fault.title)}</title></rect>"
        )
        place, free_px = _beside(left, 6.0 * len(fault.label) + 8, free_px)
        if place is not None:
            out.append(f'<text class="hit" x="{place:.1f}" y="12">{escaped(fault.label)}</text>')
    return out


def _marks(marks: Sequence[Mark], x: Callable[[float], float], y: int, bottom: int, kind: str) -> list[str]:
    """A line per mark, with its label where there is room."""
    out = []
    free_px = 0.0
    for mark in marks:
        at = x(mark.at_s)
        tip = f"<title>{escaped(mark.title)}</title>"
        out.append(f'<line class="{kind}" x1="{at:.1f}" x2="{at:.1f}" y1="{y - 9}" y2="{bottom}">{tip}</line>')
        place, free_px = _beside(at, max(_LABEL_EVERY_PX, 7 * len(mark.label) + 5), free_px)
        if place is not None:
            out.append(f'<text class="{kind}" x="{place:.1f}" y="{y}">{escaped(mark.label)}{tip}</text>')
    return out


def _beside(at: float, width: float, free_px: float) -> tuple[float | None, float]:
    """Where a label of the moment `at` has room (None: nowhere near), and where room begins then, in px."""
    place = min(max(at + 3, free_px), LABEL_PX + PLOT_PX - width)
    if place < free_px or place - at > _NEAR_PX:
        return None, free_px
    return place, place + width


def _side(values: Sequence[float], left: int, top: int, row_px: int, head: str, kind: str) -> list[str]:
    """Bars beside the rows with their values; all bars share a scale that starts at 0."""
    most = max(values, default=0) or 1
    out = [f'<text class="dim" x="{left}" y="{top - 8}">{head}</text>']
    for i, value in enumerate(values):
        y, width = top + row_px * i, (_SIDE_PX - 38) * value / most
        out.append(f'<rect class="{kind}" x="{left}" y="{y + 3}" width="{width:.1f}" height="{row_px - 6}" rx="1"/>')
        if row_px == _TALL_ROW_PX:
            out.append(f'<text class="dim" x="{left + width + 4:.1f}" y="{y + 12}">{value:,.0f}</text>')
    return out
