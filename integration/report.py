"""Results of a run -> one self-contained HTML page and text tables. Draws; judges nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Protocol

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape
from rich.table import Table

from .checker import Interval, Verdict

# Okabe-Ito: told apart by colour-blind readers, on light and dark ground.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8a7a00", "#7f7f7f")
ROW_PX, LABEL_PX, WIDTH_PX, BAR_PX = 15, 90, 1000, 34


@dataclass(frozen=True)
class PlacementRow:
    """Records of one partitioner in one topic.

    Args:
        counts: Records read back per partition, index = partition.
        agree: Every record was chosen, acknowledged and read back on the same partition.
    """

    partitioner: str
    topic: str
    counts: tuple[int, ...]
    agree: bool

    @property
    def records(self) -> int:
        """Records read back in all."""
        return sum(self.counts)

    @property
    def least(self) -> int:
        """Records of the emptiest partition."""
        return min(self.counts)

    @property
    def most(self) -> int:
        """Records of the fullest partition."""
        return max(self.counts)

    @property
    def svg(self) -> Markup:
        """The counts as bars on a scale from 0."""
        width, top = 9, max(self.counts) or 1
        bars = "".join(
            f'<rect class="bar" x="{i * width}" y="{BAR_PX - BAR_PX * n / top:.1f}" width="{width - 2}" '
            f'height="{BAR_PX * n / top:.1f}"><title>partition {i}: {n} records</title></rect>'
            for i, n in enumerate(self.counts)
        )
        return Markup(
            f'<svg width="{len(self.counts) * width}" height="{BAR_PX}" role="img" '
            f'aria-label="records per partition">{bars}</svg>'
        )


@dataclass(frozen=True)
class StepRow:
    """A group once it is stable after a step.

    Args:
        owned: member name -> topic -> ascending partition ids.
        moves: Partitions whose owner before the step is alive and another one now owns them, plus those of members
            that left: every partition that changed hands.
        seconds: From the first action of the step until every member had adopted its assignment.
        mono_ns: When the step began.
    """

    name: str
    generation: int
    protocol: str
    owned: Mapping[str, Mapping[str, Sequence[int]]]
    moves: int
    seconds: float
    mono_ns: int

    @property
    def loads(self) -> str:
        """Partitions per member, in words."""
        return ", ".join(f"{m}: {sum(map(len, t.values()))}" for m, t in sorted(self.owned.items()))


@dataclass(frozen=True)
class GroupResult:
    """One group's scenario, played and judged."""

    title: str
    about: str
    steps: tuple[StepRow, ...]
    verdict: Verdict
    intervals: tuple[Interval, ...]
    note: str = ""

    @property
    def _colours(self) -> dict[str, str]:
        return {m: COLOURS[i % len(COLOURS)] for i, m in enumerate(sorted({iv.member for iv in self.intervals}))}

    @property
    def legend(self) -> list[tuple[str, str]]:
        """(member name, colour)."""
        return list(self._colours.items())

    @property
    def svg(self) -> Markup:
        """The ownership timeline."""
        return timeline_svg(self.intervals, self._colours, [(s.mono_ns, s.name) for s in self.steps])


@dataclass(frozen=True)
class SparkResult:
    """What the Spark job printed, and how it compares."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    checks: tuple[tuple[str, bool, str], ...]  # label, holds, detail


@dataclass(frozen=True)
class Report:
    """Everything the page shows."""

    title: str
    subtitle: str
    value: bool | None
    facts: tuple[tuple[str, str], ...]
    placements: tuple[PlacementRow, ...] = ()
    placement_verdict: Verdict | None = None
    groups: tuple[GroupResult, ...] = field(default_factory=tuple)
    spark: SparkResult | None = None


class _Print(Protocol):
    def __call__(self, *objects: object) -> None: ...


def timeline_svg(intervals: Sequence[Interval], colours: Mapping[str, str], marks: Sequence[tuple[int, str]]) -> Markup:
    """Ownership intervals as bars: a row per topic-partition, time to the right, dashed lines at `marks` (ns, name)."""
    if not intervals:
        return Markup("<p>no member ever owned a partition</p>")
    rows = {tp: i for i, tp in enumerate(sorted({(iv.topic, iv.partition) for iv in intervals}))}
    start = min([iv.start_ns for iv in intervals] + [at for at, _ in marks])
    end = max([iv.end_ns for iv in intervals] + [at for at, _ in marks])
    top, height = 28, 28 + ROW_PX * len(rows)

    def x(ns: int) -> float:
        return LABEL_PX + (WIDTH_PX - LABEL_PX - 10) * (ns - start) / max(1, end - start)

    out = [f'<svg width="{WIDTH_PX}" height="{height + 22}" role="img" aria-label="ownership over time">']
    for (topic, partition), i in rows.items():
        y = top + ROW_PX * i
        out.append(f'<text x="0" y="{y + 11}">{escape(topic)}-{partition}</text>')
        out.append(f'<line class="grid" x1="{LABEL_PX}" x2="{WIDTH_PX}" y1="{y + ROW_PX}" y2="{y + ROW_PX}"/>')
    for iv in intervals:
        y, left = top + ROW_PX * rows[iv.topic, iv.partition], x(iv.start_ns)
        label = (
            f"{iv.topic}-{iv.partition} at {iv.member}: {(iv.start_ns - start) / 1e9:.3f} s to "
            f"{(iv.end_ns - start) / 1e9:.3f} s, {iv.start_kind} to {iv.end_kind}"
        )
        out.append(
            f'<rect x="{left:.1f}" y="{y + 2}" width="{max(1.0, x(iv.end_ns) - left):.1f}" height="{ROW_PX - 4}" '
            f'rx="2" fill="{colours[iv.member]}"><title>{escape(label)}</title></rect>'
        )
    for i, (at, name) in enumerate(marks):
        # Labels alternate between two lines, so that quick steps don't print over each other.
        out.append(f'<line class="mark" x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{top - 4}" y2="{height}"/>')
        anchor = "end" if x(at) > WIDTH_PX - 140 else "start"
        out.append(
            f'<text class="dim" x="{x(at) + 2:.1f}" y="{10 + 12 * (i % 2)}" text-anchor="{anchor}">'
            f"{escape(name)}</text>"
        )
    seconds = (end - start) / 1e9
    tick = next(s for s in (0.5, 1, 2, 5, 10, 20, 60, 300, 1e9) if seconds / s <= 12)
    for k in range(int(seconds / tick) + 1):
        out.append(
            f'<text class="dim" x="{x(start + int(k * tick * 1e9)):.1f}" y="{height + 15}">{k * tick:g} s</text>'
        )
    return Markup("".join(out) + "</svg>")


def render_html(report: Report) -> str:
    """The page: no script, no link, no download."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = files(__package__).joinpath("templates/report.html.j2").read_text("utf-8")
    page: str = environment.from_string(template).render(report=report)
    return page


def placement_table(rows: Sequence[PlacementRow]) -> Table:
    """Placement as a text table."""
    table = Table("partitioner", "topic", "records", "per partition", "chosen = acked = read", title_justify="left")
    for row in rows:
        table.add_row(
            row.partitioner, row.topic, str(row.records), " ".join(map(str, row.counts)), "yes" if row.agree else "NO"
        )
    return table


def step_table(step: StepRow) -> Table:
    """Who owns what after a step, as a text table."""
    table = Table("member", "partitions", "owns", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for member, topics in sorted(step.owned.items()):
        owns = "  ".join(f"{t}[{' '.join(map(str, p))}]" for t, p in sorted(topics.items()) if p)
        table.add_row(member, str(sum(map(len, topics.values()))), owns or "-")
    return table


def verdict_lines(verdict: Verdict) -> list[str]:
    """The verdict with every violation and its witnesses, a line each."""
    word = {True: "true", False: "FALSE"}.get(verdict.value, "UNKNOWN")  # type: ignore[arg-type]
    lines = [f"verdict {word} ({verdict.laws})"]
    for violation in verdict.violations:
        lines.append(f"  {violation.law}: {violation.message}")
        lines += [f"    witness {w}" for w in violation.witnesses]
    return [*lines, *(f"  unknown: {reason}" for reason in verdict.unknown), *(f"  {fact}" for fact in verdict.facts)]
