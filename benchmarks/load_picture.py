"""``python -m benchmarks.load_picture`` draws the example of docs/load.md, before and after its plan: docs/load.svg."""

from __future__ import annotations

import doctest
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
_WIDTH, _HEIGHT, _TOP, _GROUND = 900, 330, 56, 270
_COLOURS = ("#0072b2", "#96690a", "#00805a")  # blue, orange and green as in the report, darker for white text
_BAR_PX, _STEP_PX = 56, 84  # of a member with capacity 1; twice the capacity is twice as wide
_STYLE = (
    "rect.back{fill:#fff} text{fill:#222;font-size:13px} text.in{fill:#fff;font-size:12px} text.dim{fill:#5a6070}"
    " .free{fill:#f2f5fa;stroke:#667;stroke-dasharray:4 3} .ground{stroke:#333}"
    " .bound{stroke:#c0252b;stroke-dasharray:6 4}"
)


def example() -> dict[str, Any]:
    """The names that the first example of the page defines.

    Raises:
        AssertionError: The example fails.
    """
    page = doctest.DocTestParser().get_doctest((DOCS / "load.md").read_text("utf-8"), {}, "load.md", None, 0)
    end = next(i for i, doc_example in enumerate(page.examples) if "load.work" in doc_example.source)
    page.examples = page.examples[: end + 1]
    assert doctest.DocTestRunner().run(page, clear_globs=False).failed == 0
    return page.globs


def svg(names: Mapping[str, Any]) -> str:
    """Area is work, width is capacity: a bar's height is work / capacity, which the bound limits."""
    group, made = names["group"], names["made"]
    weights = {place: float(names["weights"].get(place, 0)) for place in _places(group.partitions)}
    unknown = median(names["weights"].values())
    weights = {place: float(names["weights"].get(place, unknown)) for place in weights}
    members = [member.member_id for member in group.members]
    before = {member.member_id: [(tp.topic, tp.partition) for tp in member.owned] for member in group.members}
    after = {m: [(topic, p) for topic, ids in made.target[m].items() for p in ids] for m in members}
    capacity = {m: float(made.load.capacity[m]) for m in members}
    tallest = max(sum(weights[tp] for tp in of[m]) / capacity[m] for of in (before, after) for m in members)
    scale = (_GROUND - _TOP) / tallest
    free = [place for place in weights if not any(place in owned for owned in before.values())]
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" role="img" '
        f'aria-label="Work of each member before and after the plan">',
        f"<style>{_STYLE}</style>",
        f'<rect class="back" width="{_WIDTH}" height="{_HEIGHT}"/>',
        *_panel("before: work / capacity", 40, before, weights, capacity, scale, free),
        *_panel("after: work / capacity", 530, after, weights, capacity, scale, []),
    ]
    y = _GROUND - made.load.bound * scale
    out += [
        f'<line class="bound" x1="40" x2="880" y1="{y:.1f}" y2="{y:.1f}"/>',
        f'<text class="dim" x="880" y="{y + 14:.1f}" text-anchor="end">bound {made.load.bound:g}</text>',
    ]
    return "\n".join([*out, "</svg>", ""])


def _places(partitions: Mapping[str, int]) -> list[tuple[str, int]]:
    return [(topic, p) for topic, count in partitions.items() for p in range(count)]


def _panel(
    head: str,
    left: float,
    owned: Mapping[str, Sequence[tuple[str, int]]],
    weights: Mapping[tuple[str, int], float],
    capacity: Mapping[str, float],
    scale: float,
    free: Sequence[tuple[str, int]],
) -> list[str]:
    """One assignment as bars, with the partitions that nobody owns beside it."""
    out = [f'<text x="{left}" y="26" font-weight="bold">{head}</text>']
    x = left
    for colour, member in zip(_COLOURS, owned, strict=False):
        width, y = _BAR_PX * capacity[member], float(_GROUND)
        for place in owned[member]:
            y = _block(out, place, weights[place], x, y, width, scale / capacity[member], f'fill="{colour}"')
        loaded = sum(weights[place] for place in owned[member]) / capacity[member]
        middle = x + width / 2
        out += [
            f'<text x="{middle:.1f}" y="{y - 6:.1f}" text-anchor="middle" font-weight="bold">{loaded:g}</text>',
            f'<text x="{middle:.1f}" y="{_GROUND + 18}" text-anchor="middle">{_named(member, capacity)}</text>',
            f'<text class="dim" x="{middle:.1f}" y="{_GROUND + 36}" text-anchor="middle">{_said(owned[member])}</text>',
        ]
        x += width + _STEP_PX - _BAR_PX
    y = float(_GROUND)
    for place in free:
        y = _block(out, place, weights[place], x, y, _BAR_PX, scale, 'class="free"', "dim")
    if free:
        out.append(
            f'<text class="dim" x="{x + _BAR_PX / 2:.1f}" y="{_GROUND + 18}" text-anchor="middle">no owner</text>'
        )
    right = x + _BAR_PX if free else x - _STEP_PX + _BAR_PX
    out.append(f'<line class="ground" x1="{left}" x2="{right:.1f}" y1="{_GROUND}" y2="{_GROUND}"/>')
    return out


def _block(  # a rectangle needs its place and its look
    out: list[str],
    place: tuple[str, int],
    weight: float,
    x: float,
    y: float,
    width: float,
    scale: float,
    look: str,
    text: str = "in",
) -> float:
    """Draw one partition onto the bar; the bar's new top."""
    height = weight * scale
    out += [
        f'<rect x="{x:.1f}" y="{y - height:.1f}" width="{width:.1f}" height="{height - 1.5:.1f}" {look}/>',
        f'<text class="{text}" x="{x + width / 2:.1f}" y="{y - height / 2 + 4:.1f}" text-anchor="middle">'
        f"{place[1]}: {weight:g}</text>",
    ]
    return y - height


def _named(member: str, capacity: Mapping[str, float]) -> str:
    return member if capacity[member] == 1 else f"{member} (capacity {capacity[member]:g})"


def _said(owned: Sequence[tuple[str, int]]) -> str:
    return f"{len(owned)} partition{'' if len(owned) == 1 else 's'}"


if __name__ == "__main__":
    (DOCS / "load.svg").write_text(svg(example()), "utf-8")
