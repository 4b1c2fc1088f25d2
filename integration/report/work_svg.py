"""Draws the members' shares of partitions and of work below the ownership timeline, on the same time axis."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from kafka_assignors.drawing import colours, escaped

from .time_axis import TimeAxis
from .timeline_svg import LABEL_PX, PLOT_PX, WIDTH_PX
from .work_view import Stretch, WorkView

_PANEL_PX, _BETWEEN_PX = 84, 16


def svg(view: WorkView, axis: TimeAxis) -> Markup:
    """Two panels of bands: each member's share of the partitions and of the work. Equal bands are balance."""
    bottom = 2 * _PANEL_PX + _BETWEEN_PX + 4
    out = [
        f'<svg width="{WIDTH_PX}" height="{bottom}" viewBox="0 0 {WIDTH_PX} {bottom}" role="img" '
        f'aria-label="each member\'s share of the partitions and of the work over time">'
    ]
    panels = (("partitions", "", view.partitions, 0), ("work", view.unit, view.work, 1))
    for i, (head, unit, stretches, field) in enumerate(panels):
        top = i * (_PANEL_PX + _BETWEEN_PX) + 2
        out.append(f'<text x="0" y="{top + 12}">{head}</text><text class="dim" x="0" y="{top + 27}">{unit}</text>')
        out += _bands(view, axis, stretches, top, unit or head)
        left = LABEL_PX + PLOT_PX + 14
        if not any(sum(stretch.of.values()) for stretch in stretches):
            out.append(f'<text class="dim" x="{LABEL_PX}" y="{top + 12}">unknown: no member told any</text>')
        elif view.before is not None and view.after is not None:
            out.append(
                f'<text class="dim" x="{left}" y="{top + 12}">max / mean</text>'
                f'<text x="{left}" y="{top + 30}" style="font-size:14px;font-weight:600">'
                f"{view.before[field]:.2f} to {view.after[field]:.2f}</text>"
            )
    for at_s in view.generations:
        x = LABEL_PX + axis.x(at_s)
        out.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{bottom}"/>')
    return Markup("".join(out) + "</svg>")


def _bands(view: WorkView, axis: TimeAxis, stretches: Sequence[Stretch], top: int, unit: str) -> list[str]:
    colour_of, out = colours(view.members), []
    for stretch in stretches:
        whole = sum(stretch.of.values())
        left, right = LABEL_PX + axis.x(stretch.start_s), LABEL_PX + axis.x(stretch.end_s)
        y = float(top)
        for member in view.members:
            value = stretch.of.get(member, 0.0)
            if not whole or not value:
                continue
            height = _PANEL_PX * value / whole
            title = f"{member}: {value:,.4g} of {whole:,.4g} {unit}, {stretch.start_s:.1f} s to {stretch.end_s:.1f} s"
            out.append(
                f'<rect class="band" x="{left:.1f}" y="{y:.1f}" width="{max(right - left, 0.5):.1f}" '
                f'height="{max(height - 1, 0.5):.1f}" fill="{colour_of[member]}"><title>{escaped(title)}</title></rect>'
            )
            y += height
    return out
