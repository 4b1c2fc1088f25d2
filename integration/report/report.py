"""Renders the results of a run as one self-contained HTML page and as text tables. It judges nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from rich.table import Table
from rich.text import Text

from kafka_assignors.drawing import PAGE, STYLE, shown
from kafka_assignors.history.events import Event
from kafka_assignors.history.events.bodies import StepBody
from kafka_assignors.output import printable

from ..checker import LAWS, Interval, Verdict, laws
from ..checker.laws.told import description
from ..checker.ledger import GroupRecord, RunRecord
from ..checker.rebalance_costs import STATES
from ..history import History
from .replicas_view import Replica, killed_lines, replicas_of
from .service_view import ServiceView, stop_lines
from .side_by_side import Row, compared, reasons, result_words, row_of
from .timeline_svg import axis_of, svg
from .timeline_view import TimelineView, timeline_views
from .work_svg import svg as work_svg
from .work_view import WorkView, work_views

BAR_PX = 34


@dataclass(frozen=True)
class PlacementRow:
    """Records of one partitioner in one topic, read back: a count per partition.

    `agree`: whether the chosen, acknowledged and read-back partition is the same for every record.
    """

    partitioner: str
    topic: str
    counts: tuple[int, ...]
    agree: bool

    @property
    def records(self) -> int:
        """Total number of records read back."""
        return sum(self.counts)

    @property
    def svg(self) -> Markup:
        """The counts as a bar chart; the scale starts at 0."""
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
    """A group that is stable again after a step.

    Its `moves` are partitions with another owner than before the step. The page and the tables show the moves of the
    step's rebalances instead, which the history tells.
    """

    name: str
    generation: int
    protocol: str
    owned: Mapping[str, Mapping[str, Sequence[int]]]  # member name -> topic -> ascending partition ids
    moves: int
    seconds: float  # from the first action of the step until every member had adopted its assignment
    mono_ns: int  # when the step began

    @property
    def loads(self) -> str:
        """Number of partitions per member, as text."""
        return ", ".join(f"{m}: {sum(map(len, t.values()))}" for m, t in sorted(self.owned.items()))


class StepLine(NamedTuple):
    """A step in the table: its number on the timeline (None: it has no name), its rest and cost if it became stable."""

    number: int | None
    name: str
    step: StepRow | None
    cost: Mapping[str, Any] | None


class Changes(NamedTuple):
    """What changed in a group, in some of its steps or in all."""

    downtime_ms: float
    generations: int
    rebalances: int
    moves: int


@dataclass(frozen=True)
class GroupResult:
    """The played and judged scenario of one group.

    `gave_up`: why it stopped early; empty if it finished. `group`: its name in the history, which may have others, too;
    empty if it is the only one.
    """

    title: str
    about: str
    steps: tuple[StepRow, ...]
    verdict: Verdict
    intervals: tuple[Interval, ...]
    note: str = ""
    timeline: TimelineView | None = None
    gave_up: str = ""
    work: WorkView | None = None
    replicas: tuple[Replica, ...] = ()
    group: str = ""

    @property
    def measures(self) -> Mapping[str, Any]:
        """The measures of its verdict; steps, generations and rebalances are those of this group alone."""
        measures = self.verdict.measures
        if not self.group:
            return measures
        names = "steps", "generations", "rebalances"
        return {**measures, **{name: [row for row in measures[name] if row["group"] == self.group] for name in names}}

    @property
    def assignor(self) -> str:
        """The assignor that was elected last."""
        return self.steps[-1].protocol if self.steps else ""

    @property
    def row(self) -> Row:
        """The group's sums, as a row of the assignors side by side."""
        return row_of(self)

    @property
    def svg(self) -> Markup:
        """The ownership timeline."""
        if self.timeline is None:
            return Markup("<p>no member ever owned a partition</p>")
        # Pattern ids must be unique on the whole page.
        return svg(self.timeline, "p" + sha256(repr((self.title, self.steps)).encode()).hexdigest()[:8])

    @property
    def work_svg(self) -> Markup:
        """The members' shares of partitions and work, on the timeline's axis."""
        if self.work is None or self.timeline is None:
            return Markup("")
        return work_svg(self.work, axis_of(self.timeline))

    @property
    def rebalances(self) -> list[Mapping[str, Any]]:
        """The rebalances: without the end of the group, and without generations that were written again."""
        return [row for row in self.measures["rebalances"] if row["members"] and not row["rewritten"]]

    @property
    def step_lines(self) -> list[StepLine]:
        """All steps in order, by their numbers on the timeline; also those that never became stable."""
        by_rest = {(row["name"], row["generation"]): row for row in self.measures["steps"]}
        begun = (
            []
            if self.timeline is None
            else [(number, mark.title) for number, mark in enumerate(self.timeline.steps, 1)]
        )
        lines: list[StepLine] = []
        for step in self.steps:
            cost = by_rest.get((step.name, step.generation))
            before = next((i for i, (_, name) in enumerate(begun) if name == step.name), None)
            if before is None:
                lines.append(StepLine(None, step.name, step, cost))
                continue
            lines += [StepLine(number, name, None, None) for number, name in begun[:before]]
            lines.append(StepLine(begun[before][0], step.name, step, cost))
            begun = begun[before + 1 :]
        return lines + [StepLine(number, name, None, None) for number, name in begun]

    @property
    def whole(self) -> Changes:
        """All that changed in the group."""
        rows = self.rebalances
        return Changes(
            sum(self.timeline.downtime_ms) if self.timeline else 0.0,
            len({number for row in rows for number in row["generations"]}),
            len(rows),
            sum(row["moved"] for row in rows),
        )

    @property
    def outside(self) -> Changes | None:
        """What changed in no step that became stable; None: nothing."""
        costs = [line.cost for line in self.step_lines if line.cost]
        whole = self.whole
        inside = (sum(cost[name] for cost in costs) for name in Changes._fields)
        rest = Changes(*(total - part for total, part in zip(whole, inside, strict=True)))
        return rest if any(rest[1:]) or rest.downtime_ms >= 1 else None

    @property
    def counts(self) -> str:
        """How many steps, rebalances, generations and acknowledged records there were."""
        lines = [line for line in self.step_lines if line.name]
        stable = sum(line.step is not None for line in lines)
        whole, records = self.whole, sum(self.timeline.records) if self.timeline else self.measures["acked"]
        return (
            f"{_number(len(lines), 'step')}{f', of which {stable} became stable' if stable < len(lines) else ''}, "
            f"{_number(whole.rebalances, 'rebalance')} in {_number(whole.generations, 'generation')}, "
            f"{_number(records, 'acknowledged record')}"
        )


def _number(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


@dataclass(frozen=True)
class SparkResult:
    """The Spark job's output, and its comparison with the harness's results."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    checks: tuple[tuple[str, bool, str], ...]  # label, holds, detail


@dataclass(frozen=True)
class Report:
    """All contents of the page."""

    title: str
    subtitle: str
    value: bool | None
    facts: tuple[tuple[str, str], ...]
    placements: tuple[PlacementRow, ...] = ()
    placement_verdict: Verdict | None = None
    groups: tuple[GroupResult, ...] = field(default_factory=tuple)
    spark: SparkResult | None = None
    no_spark: str = ""  # why Spark has no result; "" if it has one, or none was asked for
    service: ServiceView | None = None  # what became of the records, if the members are processes of a user's service

    @property
    def result(self) -> list[tuple[bool | None, str]]:
        """The result in a few words each; see `result_words`."""
        return result_words(self.groups, () if self.placement_verdict is None else (self.placement_verdict,))

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts of the groups, and of the records without a group; one of a whole history is there once."""
        every = [*(group.verdict for group in self.groups), *filter(None, (self.placement_verdict,))]
        return [*{id(verdict): verdict for verdict in every}.values()]

    @property
    def words(self) -> str:
        """What happened, as a sentence: of one verdict its laws and what was played, of several how many hold."""
        values = [verdict.value for verdict in self.verdicts]
        if self.placement_verdict is not None and self._astray:
            values[-1] = False
        if self.spark is not None:
            values.append(all(holds for _, holds, _ in self.spark.checks))
        words = {True: "true", False: "false", None: "unknown"}
        if len(values) == 1:
            whole = (
                self.verdicts[0].words
                if self.verdicts
                else f"the one verdict, of Spark's figures, is {words[values[0]]}"
            )
            return "; ".join([whole, *(group.counts for group in self.groups if len(self.groups) == 1)])
        if values and all(values):
            return f"all {len(values)} verdicts are true"
        counts = ", ".join(f"{values.count(value)} {word}" for value, word in words.items() if value in values)
        return f"{len(values)} verdicts: {counts}" if values else "nothing was judged"

    @property
    def reasons(self) -> list[str]:
        """Why the verdict isn't true, a sentence each; the first few, and how many more there are."""
        others = [f"records of {row.partitioner} in {row.topic} are not where they were sent" for row in self._astray]
        if self.spark is not None:
            others += [f"Spark: not {label}: {detail}" for label, holds, detail in self.spark.checks if not holds]
        return reasons(self.groups, self.placement_verdict, others)

    @property
    def _astray(self) -> list[PlacementRow]:
        return [row for row in self.placements if not row.agree]

    @property
    def rows(self) -> list[Row]:
        """The assignors that played one scenario, side by side."""
        return compared(self.groups)


def told_groups(history: History, verdict: Verdict) -> tuple[GroupResult, ...]:
    """A kept history's groups as results, without the scenario; each has the verdict of the whole history."""
    drawn, works, records = timeline_views(history), work_views(history), RunRecord.of(history).groups
    return tuple(
        GroupResult(
            group,
            "",
            _kept_steps(records[group], verdict),
            verdict,
            (),
            timeline=timeline,
            work=works[group],
            replicas=replicas_of(history, group),
            group=group,
        )
        for group, timeline in drawn.items()
    )


def _kept_steps(record: GroupRecord, verdict: Verdict) -> tuple[StepRow, ...]:
    owned: dict[int, dict[str, dict[str, list[int]]]] = {}
    protocol: dict[int, str] = {}
    for generation in record.generations:
        protocol[generation.number], members = generation.protocol, owned.setdefault(generation.number, {})
        members.clear()  # a generation may be written again
        for member_id, tps in generation.assigned.items():
            topics = members.setdefault(generation.names[member_id], {})
            for tp in sorted(tps):
                topics.setdefault(tp.topic, []).append(tp.partition)
    begins: dict[tuple[str, int], int] = {}
    named: Event[StepBody] | None = None
    for event in record.events.of(StepBody):
        if event.body.name == "stable" and event.body.generation is not None:
            began = event if named is None else named
            begins["" if named is None else named.body.name, event.body.generation] = began.mono_ns
            named = None
        elif event.body.name not in STATES:
            named = event
    return tuple(
        StepRow(
            row["name"], row["generation"], protocol.get(row["generation"], ""), owned.get(row["generation"], {}),
            row["moves"], (row["ms"] or 0) / 1000, begins.get((row["name"], row["generation"]), 0),
        )
        for row in verdict.measures["steps"]
        if row["group"] == record.group
    )  # fmt: skip


class LawRow(NamedTuple):
    """One law on the page: its sentence, how often it was judged, the result (None: never), why it was skipped."""

    law: str
    says: str
    times: int
    value: bool | None
    skipped: str = ""


def _says() -> dict[str, str]:
    return {line[:2]: line[6:] for line in (laws.__doc__ or "").splitlines() if line[:2] in LAWS}


def law_rows(verdict: Verdict) -> list[LawRow]:
    """Every law with its result."""
    broken = {violation.law for violation in verdict.violations}
    rows = []
    for law in LAWS:
        times = verdict.checked.get(law, 0)
        value = False if law in broken else True if times else None
        rows.append(LawRow(law, _says().get(law, ""), times, value, _reasons(verdict.skipped.get(law, {}))))
    return rows


def _reasons(skipped: Mapping[str, int]) -> str:
    return "; ".join(f"{why} (×{times})" for why, times in skipped.items())


def render_html(report: Report) -> str:
    """The page. It has no scripts, links or downloads."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=shown
    )
    template = files(__package__).joinpath("templates/report.html.j2").read_text("utf-8")
    environment.globals.update(
        law_rows=law_rows, says=_says(), description=description, killed_lines=killed_lines,
        stop_lines=stop_lines,
        style=Markup(STYLE + PAGE),
    )  # fmt: skip
    page: str = environment.from_string(template).render(report=report)
    return page


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} ms"


COLUMNS: Sequence[tuple[str, Callable[[Row], str]]] = (
    ("partition-ms without an owner", lambda row: f"{row.downtime_ms:,.0f}"),
    ("longest", lambda row: _ms(row.stop_ms)),
    ("a record waits: p50", lambda row: _ms(row.delays_ms.get("p50_ms"))),
    ("p99", lambda row: _ms(row.delays_ms.get("p99_ms"))),
    ("at most", lambda row: _ms(row.delays_ms.get("most_ms"))),
    ("generations", lambda row: str(row.generations)),
    ("rebalances", lambda row: str(row.rebalances)),
    ("moves", lambda row: str(row.moves)),
    ("at least", lambda row: "-" if row.least is None else str(row.least)),
    ("needless revokes", lambda row: str(row.returned)),
    ("read twice", lambda row: "-" if row.duplicates is None else str(row.duplicates)),
    ("stop at the kill", lambda row: _ms(row.killed_ms)),
)
"""Columns of the assignors side by side: head, and a row's cell."""


def placement_table(rows: Sequence[PlacementRow]) -> Table:
    """The placement rows as a text table."""
    table = Table("partitioner", "topic", "records", "per partition", "chosen = acked = read", title_justify="left")
    for row in rows:
        table.add_row(
            row.partitioner, row.topic, str(row.records), " ".join(map(str, row.counts)), "yes" if row.agree else "NO"
        )
    return table


def side_by_side(rows: Sequence[Row]) -> Table:
    """The assignors of one scenario as a text table."""
    table = Table(*("assignor", *(head for head, _ in COLUMNS)))
    for row in rows:
        table.add_row(row.assignor, *(cell(row) for _, cell in COLUMNS))
    return table


def cost_table(row: Row) -> Table:
    """What one group's changes cost, a figure per line."""
    table = Table("the running group", "", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for head, cell in COLUMNS:
        table.add_row(head, cell(row))
    return table


def step_table(step: StepRow) -> Table:
    """The owned partitions after a step, as a text table."""
    table = Table("member", "partitions", "owns", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for member, topics in sorted(step.owned.items()):
        owns = "  ".join(f"{t}[{' '.join(map(str, p))}]" for t, p in sorted(topics.items()) if p)
        table.add_row(
            Text(printable(member)), str(sum(map(len, topics.values()))), Text(printable(owns)) if owns else "-"
        )
    return table


_UNKNOWN = 20
"""Reasons of an unknown verdict that are printed: a damaged file has one per line."""


def verdict_lines(verdict: Verdict) -> list[str]:
    """The verdict with every violation and its witnesses, one per line."""
    word = {True: "true", False: "FALSE"}.get(verdict.value, "UNKNOWN")  # type: ignore[arg-type]
    lines = [f"verdict {word}: {verdict.words}"]
    for violation in verdict.violations:
        lines.append(f"  {violation.law}: {violation.message}")
        lines += [f"    witness {description(witness)}" for witness in violation.witnesses]
    lines += [f"  unknown: {reason}" for reason in verdict.unknown[:_UNKNOWN]]
    if len(verdict.unknown) > _UNKNOWN:
        lines.append(f"  unknown: {len(verdict.unknown) - _UNKNOWN:,} more reasons; --json has them all")
    lines += [f"  skipped {law}: {_reasons(reasons)}" for law, reasons in verdict.skipped.items()]
    return [printable(line) for line in (*lines, *(f"  {fact}" for fact in verdict.facts))]
