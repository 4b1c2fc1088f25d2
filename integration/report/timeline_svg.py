"""Draws a group's ownership timeline as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup, escape

from kafka_assignors.drawing import colours, legend, short

from .timeline_view import GAP, OVERLAP, OWNED, SHARED, ZOMBIE, Mark, TimelineView

LABEL_PX, PLOT_PX = 118, 760
"""Width of the column of names, and of the time axis."""
_SIDE_PX = 86
WIDTH_PX = LABEL_PX + PLOT_PX + 2 * (_SIDE_PX + 14) + 4
_LANE_PX, _TALL_ROW_PX, _LOW_ROW_PX, _MANY_ROWS = 17, 16, 10, 40
_LABEL_EVERY_PX = 17


def svg(view: TimelineView, name: str) -> Markup:
    """The timeline as SVG; `name` makes its pattern ids unique on the page.

    The lanes at the top show faults, steps and generations. Each topic-partition has a row, with its downtime and its
    records beside it.
    """
    row_px = _TALL_ROW_PX if len(view.rows) <= _MANY_ROWS else _LOW_ROW_PX
    top = 3 * _LANE_PX + 8
    bottom = top + row_px * len(view.rows)
    colour_of = colours(view.members)

    def x(seconds: float) -> float:
        return LABEL_PX + PLOT_PX * seconds / max(view.seconds, 1e-9)

    key, height = legend(_looks(colour_of, name), WIDTH_PX, bottom + 24)
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
        said = f"{tp.topic}-{tp.partition}" if tp.topic != topic or row_px == _TALL_ROW_PX else f"-{tp.partition}"
        if tp.topic != topic:
            out.append(f'<line class="topic" x1="0" x2="{WIDTH_PX}" y1="{y}" y2="{y}"/>')
        topic = tp.topic
        size = "" if row_px == _TALL_ROW_PX else ' style="font-size:9px"'
        out.append(
            f'<text x="0" y="{y + row_px - 4}"{size}>{escape(short(said, 18))}<title>{escape(said)}</title></text>'
        )
    for bar in view.bars:
        y, left = top + row_px * bar.row, x(bar.start_s)
        width = max(1.2, x(bar.end_s) - left)
        if bar.kind == OWNED:
            look = f'fill="{colour_of[bar.member]}" rx="2"'
        elif bar.kind == ZOMBIE:
            look = f'fill="url(#{name}-{_id(view, bar.member)})" rx="2"'
        elif bar.kind == SHARED:
            look = f'fill="{colour_of[bar.member]}" class="shared"'
        else:
            look = f'class="{bar.kind}"'
        inset = 1 if bar.kind in (GAP, OVERLAP) else 2
        height = row_px // 2 - inset if bar.kind == SHARED else row_px - 2 * inset  # leaves the zombie's half visible
        out.append(
            f'<rect x="{left:.1f}" y="{y + inset}" width="{width:.1f}" height="{height}" {look}>'
            f"<title>{escape(bar.title)}</title></rect>"
        )
    out += _marks(view.steps, x, 12 + _LANE_PX, bottom, "mark")
    out += _marks(view.generations, x, 12 + 2 * _LANE_PX, top, "tick")
    left = LABEL_PX + PLOT_PX + 14
    out += _side(view.downtime_ms, left, top, row_px, "ms down", GAP)
    out += _side(view.records, left + _SIDE_PX + 14, top, row_px, "records", "bar")
    tick = next(s for s in (0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600, 3600, 1e9) if view.seconds / s <= 12)
    out += [
        f'<text class="dim" x="{x(k * tick):.1f}" y="{bottom + 16}">{k * tick:g} s</text>'
        for k in range(int(view.seconds / tick) + 1)
    ]
    return Markup("".join([*out, *key]) + "</svg>")


def _looks(colour_of: Mapping[str, str], name: str) -> list[tuple[str, str]]:
    """The legend: how members and kinds of bar look, and what they are."""
    return [
        *((f'fill="{colour}"', member) for member, colour in colour_of.items()),
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


def _id(view: TimelineView, member: str) -> int:
    return view.members.index(member)


def _fault_bands(faults: Sequence[Mark], x: object, bottom: int) -> list[str]:
    assert callable(x)
    out = []
    free_px = 0.0
    for fault in sorted(faults, key=lambda each: each.at_s):
        left, right = x(fault.at_s), x(fault.end_s or fault.at_s)
        out.append(
            f'<rect class="fault" x="{left:.1f}" y="2" width="{max(2.0, right - left):.1f}" height="{bottom - 2}">'
            f"<title>{escape(fault.title)}</title></rect>"
        )
        width = 6.0 * len(fault.label) + 8
        if left >= free_px:
            out.append(
                f'<text class="hit" x="{min(left + 3, WIDTH_PX - width):.1f}" y="12">{escape(fault.label)}</text>'
            )
            free_px = left + width
    return out


def _marks(marks: Sequence[Mark], x: object, y: int, bottom: int, kind: str) -> list[str]:
    """A line per mark, with its label if there is room."""
    assert callable(x)
    out = []
    free_px = 0.0
    for mark in marks:
        at = x(mark.at_s)
        tip = f"<title>{escape(mark.title)}</title>"
        out.append(f'<line class="{kind}" x1="{at:.1f}" x2="{at:.1f}" y1="{y - 9}" y2="{bottom}">{tip}</line>')
        if at >= free_px:
            out.append(f'<text class="{kind}" x="{at + 3:.1f}" y="{y}">{escape(mark.label)}{tip}</text>')
            free_px = at + max(_LABEL_EVERY_PX, 7 * len(mark.label) + 5)
    return out


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
