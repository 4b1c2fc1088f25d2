"""The demo on a real broker: partitioners and groups; in full also the vote, worked examples and Spark.

Each part has its own verdict; one HTML page shows all of them.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from kafka.errors import KafkaError
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kafka_assignors.core.group import Group, Member, TopicPartition
from kafka_assignors.core.group.assignment import moves, owners
from kafka_assignors.core.strategies import strategy
from kafka_assignors.errors import KafkaAssignorsError
from kafka_assignors.history.events import is_of
from kafka_assignors.history.events.bodies import AckBody, ReadBackBody
from kafka_assignors.operator.election import elect
from kafka_assignors.output import TOLD_EVERY_S, repeated

from ..broker import Broker
from ..checker import check
from ..errors import HarnessError
from ..history import History
from ..members.group import Stable
from ..processes.told import TooSlow, run_told
from ..records import Record, read_back, send
from ..registry import assignor_named
from ..report.report import (
    GroupResult,
    PlacementRow,
    Report,
    SparkResult,
    placement_table,
    render_html,
    side_by_side,
    verdict_lines,
)
from ..scenario import DEMO_TOPICS, Scenario, scenario
from ..scenario.actions import Join
from ..scenario.prefix import prefixed
from ..scenario.runner import run_scenario
from ..topics.sandbox import Sandbox
from .judged import judged, step_row, tell_step

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
QUICK_ASSIGNORS = ("range", "sticky", "cooperative-sticky")
PARTITIONERS = ("default", "roundrobin", "sticky", "random", "explicit")
KIP_54 = ("kip-54-1", "kip-54-2")
RECORDS_PER_TOPIC = 1000
KEYS = 200
SPARK_TIMEOUT_S = 480.0
SPARK_TOLD_S = 5.0
"""While Spark works, a line says at least this often at which stage it is."""
SPARK = (sys.executable, "-m", "kafka_assignors.pipeline", "run")
STAGE = "pipeline: "
"""Prefix of the Spark job's lines that name its stage."""


def made_on(sandbox: Sandbox, full: bool) -> tuple[dict[str, int], list[str]]:
    """The topics, with their partition counts, and the groups that a demo makes in a sandbox."""
    played = [scenario(name) for name in ("churn", *(("election", "range-skew", *KIP_54) if full else ()))]
    topics = {topic: count for what in played for topic, count in what.topics.items()}
    groups = [*(f"churn-{name}" for name in (ASSIGNORS if full else QUICK_ASSIGNORS)), *(w.name for w in played[1:])]
    return {sandbox.name(topic): count for topic, count in topics.items()}, [sandbox.name(g) for g in groups]


class Demo:
    """One run of the demo, on a broker that is ready; `full` also with roundrobin, the vote and the worked examples.

    The folder `out` gets ``history/`` (with a folder for each part), ``spark/`` and ``report.html``. The same `seed`
    gives the same keys of records, and so the same keyed placement.
    """

    def __init__(
        self,
        broker: Broker,
        sandbox: Sandbox,
        out: Path,
        run: str,
        console: Console,
        *,
        full: bool = True,
        spark: bool = True,
        spark_timeout_s: float = SPARK_TIMEOUT_S,
        seed: int = 7,
    ) -> None:
        self.broker, self.out, self.run_id, self.console = broker, out, run, console
        self.sandbox = sandbox
        self.topics = {sandbox.name(topic): count for topic, count in DEMO_TOPICS.items()}
        self.full, self.spark, self.seed = full, spark, seed
        self.spark_timeout_s = spark_timeout_s
        self.history, self.page = out / "history", out / "report.html"  # written before Spark begins, and at the end
        self.spark_failure = ""  # why Spark has no result although it was asked for; all other results stand
        self.groups: list[GroupResult] = []

    def run(self) -> Report:
        """Run all parts in order, and write the page. The report's `value` is True only if every verdict is true.

        A Spark job that fails or is too slow has no verdict, see `spark_failure`.
        """
        began = time.monotonic()
        report = Report("", "", None, ())
        values: list[bool | None] = []
        parts = self._parts()
        many = len(parts) + self.spark
        for number, (title, play) in enumerate(parts, 1):
            self.console.rule(f"{number} of {many}: {title}", align="left")
            part_began = time.monotonic()
            outcome = play()
            took = f"{time.monotonic() - part_began:.0f} s"
            if isinstance(outcome, Report):
                report, value = outcome, outcome.value
            else:
                value = outcome.verdict.value
            values.append(value)
            self._verdict(title, value, took)
        if self.spark:
            self._write(self._whole(report, values, began, "Spark is at work: this page is written again at its end."))
            self._say([f"Page without Spark: {self.page.resolve()}", f"Histories: {self.history.resolve()}"])
            self.console.rule(f"{many} of {many}: Spark", align="left")
            part_began = time.monotonic()
            spark = self._spark_or_why()
            took = f"{time.monotonic() - part_began:.0f} s"
            if spark is None:
                self._say([f"Spark has no result after {took}: {self.spark_failure}"])
            else:
                values.append(all(holds for _, holds, _ in spark.checks))
                report = replace(report, spark=spark)
                self._verdict("Spark", values[-1], took)
        report = self._whole(report, values, began, self.spark_failure)
        self.console.rule("Result", align="left")
        self.console.print(side_by_side(report.rows))
        self._say([", ".join(words for _, words in report.result)])
        self._write(report)
        return report

    def _verdict(self, title: str, value: bool | None, took: str) -> None:
        word, style = {True: ("true", "green"), False: ("FALSE", "red")}.get(value, ("UNKNOWN", "yellow"))  # type: ignore[arg-type]
        self.console.print(f"{title}: {word}, {took}", style=style, markup=False, highlight=False)

    def _whole(self, report: Report, values: Collection[bool | None], began: float, no_spark: str) -> Report:
        """The report of the parts so far."""
        return replace(
            report,
            value=False if False in values else None if None in values else True,
            groups=tuple(self.groups),
            facts=(
                ("broker", f"{self.broker.backend}, Kafka {self.broker.version}"),
                ("groups", str(len(self.groups))),
                ("records placed", str(sum(r.records for r in report.placements))),
                ("took", f"{time.monotonic() - began:.0f} s"),
            ),
            no_spark=no_spark,
        )

    def _write(self, report: Report) -> None:
        """Replace the page: a reader sees either the old one or the new one."""
        new = self.page.with_name(f".{self.page.name}")
        new.write_text(render_html(report), "utf-8")
        new.replace(self.page)

    def _parts(self) -> list[tuple[str, Callable[[], Report | GroupResult]]]:
        def churn(name: str) -> Callable[[], GroupResult]:
            return lambda: self._run_scenario(replace(scenario("churn"), assignors=(name,)), f"churn-{name}")

        def example(name: str) -> Callable[[], GroupResult]:
            return lambda: self._run_scenario(
                scenario(name), name, _against_roundrobin(prefixed(scenario(name), self.sandbox.prefix))
            )

        parts: list[tuple[str, Callable[[], Report | GroupResult]]] = [
            ("partitions of the records", self._place),
            *((f"a group with {name}", churn(name)) for name in (ASSIGNORS if self.full else QUICK_ASSIGNORS)),
        ]
        if self.full:
            parts += [
                ("the vote", self._vote),
                ("range-skew", lambda: self._run_scenario(scenario("range-skew"), "range-skew", _range_skew)),
                *((name, example(name)) for name in KIP_54),
            ]
        return parts

    def _place(self) -> Report:
        with self._doing("topics"):
            self.sandbox.make(self.topics)
        folder = self.history / "records"
        rng = random.Random(self.seed)
        for name in PARTITIONERS:
            with self._doing(f"{name}: {RECORDS_PER_TOPIC * len(self.topics)} records"):
                records = [
                    _record(name, topic, partitions, rng)
                    for topic, partitions in self.topics.items()
                    for _ in range(RECORDS_PER_TOPIC)
                ]
                send(self.broker.connection, folder, self.run_id, name, records)
        with self._doing("reading all records back"):
            seen = read_back(self.broker.connection, folder, self.run_id, list(self.topics))
        verdict = check(History.load(folder))
        witnesses = [witness for violation in verdict.violations for witness in violation.witnesses]
        bodies = [w.body for w in witnesses if is_of(w, AckBody) or is_of(w, ReadBackBody)]
        astray = {(body.partitioner, body.topic) for body in bodies}
        rows = tuple(
            PlacementRow(
                name,
                topic,
                tuple(seen.counts.get(name, {}).get(topic, {}).get(p, 0) for p in range(partitions)),
                verdict.value is not None
                and (name, topic) not in astray
                and sum(seen.counts.get(name, {}).get(topic, {}).values()) == RECORDS_PER_TOPIC,
            )
            for name in PARTITIONERS
            for topic, partitions in self.topics.items()
        )
        self.console.print(placement_table(rows))
        self._say(verdict_lines(verdict))
        # A refused record breaks no law, but here no record may be refused.
        value = verdict.value and all(row.agree for row in rows)
        return Report("kafka-assignors: the demo", f"run {self.run_id}", value, (), rows, verdict)

    def _run_scenario(self, what: Scenario, name: str, note: Callable[[GroupResult], str] | None = None) -> GroupResult:
        self.console.print(f"[bold]{name}[/]: {what.about}")

        def on_step(step_name: str, stable: Stable) -> None:
            tell_step(self.console, step_row(step_name, stable), "  ")

        with self._doing(name):
            ran = run_scenario(
                what, self.broker, self.history / name, self.run_id, sandbox=self.sandbox, group=name, on_step=on_step
            )
            result = judged(ran)
        if result.gave_up:
            self._say([f"  not played to the end: {result.gave_up}"])
        result = replace(result, title=name, note=note(result) if note and not result.gave_up else "")
        if result.note:
            self.console.print(f"  {result.note}")
        self._say("  " + line for line in verdict_lines(result.verdict))
        self.groups.append(result)
        return result

    def _vote(self) -> GroupResult:
        what = scenario("election")
        offers = {
            a.member: [assignor_named(n).name for n in a.assignors]
            for step in what.steps
            for a in step.actions
            if isinstance(a, Join)
        }
        predicted = elect(offers)
        for member, names in offers.items():
            self.console.print(f"  {member} offers {', '.join(names)}")
        self.console.print(f"  predicted: {predicted.explanation}")
        elected = lambda r: (
            f"Predicted {predicted.winner}; the broker elected {r.steps[-1].protocol}. {predicted.explanation}"
        )
        return self._run_scenario(what, "election", elected)

    def _spark_or_why(self) -> SparkResult | None:
        """Spark's result; or None, and `spark_failure` says why. What Kafka's part found stands."""
        try:
            return self._spark()
        except (KafkaAssignorsError, KafkaError, OSError) as error:
            self.spark_failure = str(error) or type(error).__name__
            return None

    def _spark(self) -> SparkResult:
        with self._doing("the topics' records"):
            now = read_back(self.broker.connection, self.out / "now", self.run_id, list(self.topics)).counts
        truth: dict[tuple[str, int], int] = {}
        for topics in now.values():
            for topic, counts in topics.items():
                for partition, n in counts.items():
                    truth[topic, partition] = truth.get((topic, partition), 0) + n
        command = [
            *SPARK, "--topics", ",".join(self.topics), "--history", str(self.history),
            "--out", str(self.out / "spark"), "--json",
        ]  # fmt: skip
        with self._stages() as tell:
            try:
                done = run_told(
                    [*command, "--config", "/dev/stdin"], tell,  # no file gets the secrets
                    given=self.broker.connection.properties(), timeout_s=self.spark_timeout_s, silence_s=SPARK_TOLD_S,
                )  # fmt: skip
            except TooSlow as slow:
                at = f"; it was at: {slow.line.removeprefix(STAGE)}" if slow.line else ""
                raise HarnessError(
                    f"the Spark job did not end within {self.spark_timeout_s:g} s{at}. --spark-timeout gives it more"
                ) from slow
        if done.returncode:
            error_output = "".join(line for line in done.stderr.splitlines(keepends=True) if not line.startswith(STAGE))
            raise HarnessError(
                f"the Spark job failed (exit {done.returncode}): {error_output.removeprefix('error: ').strip()[-2000:]}"
            )
        answer = json.loads(done.stdout.strip().splitlines()[-1])
        return self._compare(answer, truth)

    def _compare(self, answer: Mapping[str, Any], truth: Mapping[tuple[str, int], int]) -> SparkResult:
        """Compare the Spark job's tables with the records read back and the checker's intervals."""
        placed: dict[tuple[str, int], int] = {}
        for row in _parquet(answer["out"]["placement"], "topic", "partition", "records"):
            placed[row[0], row[1]] = placed.get((row[0], row[1]), 0) + row[2]
        columns = ("group", "topic", "partition", "member", "incarnation", "start_ns", "end_ns")
        owned = set(_parquet(answer["out"]["group_timeline"], *columns))
        expected = {tuple(getattr(iv, c) for c in columns) for g in self.groups for iv in g.intervals}
        truth = {tp: n for tp, n in truth.items() if n}
        checks = (
            (
                "placement = read-back",
                placed == truth,
                f"{sum(placed.values())} records by Spark, {sum(truth.values())} read back"
                + _first_difference(set(placed.items()), set(truth.items())),
            ),
            (
                "group_timeline = the checker's intervals",
                owned == expected,
                f"{len(owned)} intervals by Spark, {len(expected)} by the checker" + _first_difference(owned, expected),
            ),
        )
        rows = tuple(
            (
                str(t["topic"]), str(t["partitions"]), str(t["records"]), str(t["bytes"]),
                *(f"{t[c]:.3f}" for c in ("max_over_mean", "cv", "gini")),
                " ".join(str(load["records"]) for load in t["loads"]),
            )
            for t in answer["topics"]
        )  # fmt: skip
        head = ("topic", "partitions", "records", "bytes", "max/mean", "cv", "gini", "records per partition")
        table = Table(*head)
        for cells in rows:
            table.add_row(*cells)
        self.console.print(table)
        for label, holds, detail in checks:
            self.console.print(f"{label}: {'true' if holds else 'FALSE'} ({detail})", highlight=False)
        return SparkResult(head, rows, checks)

    @contextmanager
    def _doing(self, what: str) -> Iterator[None]:
        """Show progress: a live line on a terminal, a plain line elsewhere."""
        if self.console.is_terminal:
            with self.console.status(what):
                yield
        else:
            begin, console = time.monotonic(), self.console
            console.print(f"... {what}")
            with repeated(TOLD_EVERY_S, lambda: console.print(f"... {what}: {time.monotonic() - begin:.0f} s")):
                yield

    @contextmanager
    def _stages(self) -> Iterator[Callable[[str, float], None]]:
        """Yields the function that shows the Spark job's stages: live on a terminal, as lines elsewhere."""

        def words(line: str, for_s: float) -> str:
            stage = line.removeprefix(STAGE) if line.startswith(STAGE) else "starting …"
            return f"Spark: {stage}" + (f" (told {for_s:.0f} s ago)" if for_s else "")

        if not self.console.is_terminal:
            yield lambda line, for_s: self.console.print(f"... {words(line, for_s)}", markup=False, highlight=False)
            return
        with self.console.status("Spark: starting …") as status:
            yield lambda line, for_s: status.update(escape(words(line, for_s)))

    def _say(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.console.print(line, markup=False, highlight=False, soft_wrap=True)  # users copy commands from it


def _record(partitioner: str, topic: str, partitions: int, rng: random.Random) -> Record:
    """A record for this partitioner. Two of three have a key; each of ``explicit`` names a partition."""
    key = None if rng.random() < 1 / 3 else b"customer-%d" % rng.randrange(KEYS)
    asks = rng.randrange(partitions) if partitioner == "explicit" else None
    return Record(topic, key, asks)


def _parquet(path: str, *columns: str) -> Iterator[tuple[Any, ...]]:
    from pyarrow import parquet  # only installed with Spark's extra

    table = parquet.read_table(path, columns=list(columns)).to_pydict()
    return zip(*(table[c] for c in columns), strict=True)


def _first_difference(ours: set[Any], theirs: set[Any]) -> str:
    different = sorted(ours ^ theirs)
    return f"; first difference: {different[0]}" if different else ""


def _range_skew(result: GroupResult) -> str:
    loads = sorted((sum(map(len, t.values())) for t in result.steps[-1].owned.values()), reverse=True)
    balanced = -(-sum(loads) // len(loads))
    return (
        f"Loads {' / '.join(map(str, loads))}: range gives the first member the extra partition of every topic; "
        f"no member needs more than {balanced}."
    )


def _against_roundrobin(what: Scenario) -> Callable[[GroupResult], str]:
    """Make a note of how many partitions round robin would have kept in place over the same two steps."""
    topics = {a.member: a.topics or tuple(what.topics) for a in what.steps[0].actions if isinstance(a, Join)}

    def kept(before: Mapping[TopicPartition, str], after: Mapping[TopicPartition, str], alive: Collection[str]) -> str:
        stayed = {tp: member for tp, member in before.items() if member in alive}
        return f"{len(stayed) - len(moves(stayed, after))} of {len(stayed)}"

    def note(result: GroupResult) -> str:
        first, last = (step.owned for step in result.steps)
        groups = (Group([Member(m, topics[m]) for m in owned], what.topics) for owned in (first, last))
        round_robin = [owners(strategy("roundrobin").place(group)) for group in groups]
        return (
            f"Of the partitions whose owner stayed, {what.assignors[0]} kept {kept(owners(first), owners(last), last)} "
            f"in place; round robin would have kept {kept(round_robin[0], round_robin[1], last)}."
        )

    return note
