"""The counts on a run's page are those of its history, counted here by their definitions from the events themselves.

``docs/glossary.md`` has the definitions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.history.events import Event
from kafka_assignors.integration.checker import LAWS, Verdict, check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.report.report import PlacementRow, Report, SparkResult, render_html, told_groups
from kafka_assignors.output import many
from tests.support.histories import kept
from tests.support.histories.story import Story, churn

STATES = {"stable", "drained", "read_back"}
HEAD = re.compile(
    r"(?P<steps>[\d,]+) steps?(?:, of which (?P<stable>\d+) became stable)?, (?P<rebalances>[\d,]+) rebalances? in "
    r"(?P<generations>[\d,]+) generations?, (?P<records>[\d,]+) acknowledged records?"
)
KEPT = (
    kept.COOPERATIVE,
    kept.EAGER,
    "ours.cooperative-sticky.0",  # a static member returns: its generation is written again
    "churn.java-consumer.4.3.0",  # the broker assigns
    "pause.java-consumer.false",  # a step that never becomes stable
    "churn.confluent-consumer.4.1.2.false.C2",  # a generation, a rebalance and moves after the last rest
)

Owners = dict[tuple[str, int], str]


@dataclass
class Counted:
    """What a history has: steps and how many of them became stable, and what changed."""

    steps: list[str]
    stable: int
    generations: list[int]
    rebalances: int
    moves: int
    records: int


def counted(history: History) -> Counted:
    """Count what happened to the one group of a history."""
    events = sorted(history.events, key=lambda event: event.mono_ns)
    steps = [event.data["name"] for event in events if event.kind == "step"]
    named = [i for i, name in enumerate(steps) if name not in STATES]
    stable = sum(steps[i + 1 : i + 2] == ["stable"] for i in named)
    numbers: list[int] = []
    rebalances = moves = 0
    last: Owners = {}
    before: Owners = {}
    members: frozenset[str] = frozenset()
    for number, present, owners in _assigned(events):
        if number in numbers:  # written again
            continue
        numbers.append(number)
        # A cooperative assignor withholds a partition from its new owner until the old one has given it up.
        withheld = owners.keys() - before.keys()
        handed_over = present == members and bool(withheld) and withheld <= last.keys()
        rebalances += not handed_over
        moves += sum(tp in last and last[tp] != owner for tp, owner in owners.items())
        last |= owners
        before, members = owners, present
    acks = sum(event.kind == "ack" for event in events)
    return Counted([steps[i] for i in named], stable, numbers, rebalances, moves, acks)


def _assigned(events: list[Event]) -> Iterator[tuple[int, frozenset[str], Owners]]:
    """(number, members, topic-partition -> owner) of each assignment in the coordinator's log, in its order."""
    targets: dict[str, set[tuple[str, int]]] = {}
    for event in sorted((event for event in events if event.src == "coordlog"), key=lambda event: event.seq):
        data = event.data
        if event.kind == "generation_committed" and data["members"]:
            identity = {row["member_id"]: row.get("instance_id") or row["member_id"] for row in data["members"]}
            owners = {
                (tp["topic"], tp["partition"]): identity[row["member_id"]]
                for row in data["members"]
                for tp in row["assigned"]
            }
            yield data["generation"], frozenset(identity.values()), owners
        elif event.kind == "broker_assigned" and data["record"] == "ConsumerGroupTargetAssignmentMember":
            assert event.member_id is not None
            if (fields := data.get("fields")) is None:
                targets.pop(event.member_id, None)
            else:
                rows = fields["topicPartitions"]
                targets[event.member_id] = {(data["names"][r["topicId"]], p) for r in rows for p in r["partitions"]}
        elif event.kind == "broker_assigned" and data["record"] == "ConsumerGroupTargetAssignmentMetadata" and targets:
            owners = {tp: member for member, tps in targets.items() for tp in tps}
            yield data["fields"]["assignmentEpoch"], frozenset(targets), owners


def page_of(history: History) -> tuple[str, Verdict]:
    verdict = check(history)
    report = Report("kept", "", verdict.value, (), groups=told_groups(history, verdict))
    return render_html(report), verdict


def number(text: str) -> int:
    return int(text.replace(",", ""))


def cells(row: str) -> list[str]:
    return re.findall(r"<td[^>]*>(.*?)</td>", row)


def table(page: str, first_head: str) -> list[list[str]]:
    """The rows of the table of a group's section that begins with this head, without its heads."""
    section = page[page.index("Who owned what") :]
    (found,) = re.findall(rf"<table><tr><th[^>]*>{first_head}</th>.*?</table>", section, re.DOTALL)
    return [cells(row) for row in re.findall(r"<tr[^>]*>(?=<td)(.*?)</tr>", found, re.DOTALL)]


def agrees(history: History) -> None:
    """Whatever the page shows of a count is the count: in words, drawn, in rows, and in the rows' sum."""
    page, verdict = page_of(history)
    truth = counted(history)

    heads = list(HEAD.finditer(page))
    assert len(heads) == 2, "at the top, and above the tables"
    for head in heads:
        assert number(head["steps"]) == len(truth.steps)
        assert int(head["stable"] or head["steps"]) == truth.stable
        assert number(head["generations"]) == len(truth.generations)
        assert number(head["rebalances"]) == truth.rebalances
        assert number(head["records"]) == truth.records

    assert re.findall(r'<line class="mark"[^>]*><title>([^<]*)</title>', page) == truth.steps
    drawn = re.findall(r'<line class="tick"[^>]*><title>generation (\d+):', page)
    assert list(dict.fromkeys(map(int, drawn))) == truth.generations
    beside = re.findall(
        r'<rect class="bar"[^>]*/><text class="dim"[^>]*>([\d,]+)</text>', page.split(">records</text>")[1]
    )
    assert sum(map(number, beside)) == truth.records

    *steps, total = table(page, "#")
    assert [row[1] for row in steps if row[0]] == truth.steps
    assert [row[0] for row in steps if row[0]] == [str(i) for i in range(1, len(truth.steps) + 1)]
    assert sum(row[2] not in ("none", "") for row in steps if row[0]) == truth.stable
    for column, what in ((6, len(truth.generations)), (7, truth.rebalances), (8, truth.moves)):
        assert sum(number(row[column]) for row in steps if row[column] != "–") == what == number(total[column])

    rebalances = table(page, "generations")
    assert len(rebalances) == truth.rebalances
    assert [int(n) for row in rebalances for n in row[0].split(", ")] == truth.generations
    assert sum(number(row[4]) for row in rebalances) == truth.moves
    laws(page, verdict)


def laws(page: str, verdict: Verdict) -> None:
    """The words count the rows of the laws, and each row has how often its law was judged."""
    rows = re.findall(r'<td class="(ok|bad|dim)">(.)</td><td>([A-Z]\d): .*?</td><td class="n">(.*?)</td>', page)
    assert sorted(law for _, _, law, _ in rows) == sorted(LAWS)
    signs = [sign for _, sign, _, _ in rows]
    held, idle = (int(n) for n in re.findall(rf"(\d+) of {len(LAWS)} laws held, (\d+) had nothing to judge", page)[0])
    broken = re.search(r"(\d+) laws? (?:is|are) broken", page)
    assert (held, idle, int(broken[1]) if broken else 0) == (signs.count("✓"), signs.count("–"), signs.count("✗"))
    times = {law: int(n.removeprefix("×")) if n.startswith("×") else 0 for _, _, law, n in rows}
    assert times == {law: verdict.checked[law] for law in LAWS}
    assert {law for _, sign, law, _ in rows if sign == "✗"} == {violation.law for violation in verdict.violations}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["range", "sticky", "cooperative-sticky"])
def test_the_counts_of_a_run_are_those_of_its_history(protocol: str) -> None:
    agrees(churn(protocol).history)


@pytest.mark.slow
@pytest.mark.parametrize("name", KEPT)
def test_the_counts_of_a_kept_run_are_those_of_its_history(name: str, tmp_path: Path) -> None:
    agrees(History.load(kept.unpacked(name, tmp_path)))


def test_what_changes_in_no_stable_step_is_in_the_sum() -> None:
    """b joins, and the run ends before the group is stable."""
    story = Story("range", {"t": 4})
    story.tell("step", name="a joins")
    story.start("a").round().records(3)
    story.tell("step", name="b joins")
    story.start("b").round(stable=False)

    agrees(story.history)
    page, _ = page_of(story.history)

    (outside,) = [row for row in table(page, "#") if row[1] == "not in a step that became stable"]
    assert (outside[6], outside[7], outside[8]) == ("1", "1", "2")
    assert "2 steps, of which 1 became stable" in page


def test_a_group_is_counted_by_itself() -> None:
    """Of two groups in one history, each has its own steps, generations and rebalances."""
    one, other = churn(), Story("range", {"v": 2}, group="h")
    other.tell("step", name="only one joins")
    other.start("z").round()
    history = History([*one.history.events, *other.history.events])

    page, verdict = page_of(history)

    assert page.count(verdict.words) == 3, "the verdict of the whole once at the top, and at each group"
    first, second = [HEAD.findall(part)[0] for part in page.split("<h3>")[1:]]
    assert (first[0], first[2], first[3]) == ("4", "4", "4")
    assert (second[0], second[2], second[3]) == ("1", "1", "1")


def _false(story: Story) -> Story:
    """b never tells that it gave up what a has now."""
    return story.drop("revoke_begin", member="b").drop("revoke_end", member="b")


def test_of_several_verdicts_the_first_sentence_tells_how_many_hold_and_whose_do_not() -> None:
    """Records that lie elsewhere, and Spark's differences, break no law; they are reasons too."""
    true, broken = churn().history, _false(Story("range", {"t": 1}).start("b").round().start("a").round()).history
    groups = [group for history in (true, broken) for group in told_groups(history, check(history))]
    groups = [replace(group, title=title) for group, title in zip(groups, ("one", "two"), strict=True)]
    astray = PlacementRow("sticky", "t", (1, 2), False)
    spark = SparkResult((), (), (("placement = read-back", False, "9 and 8"), ("group_timeline", True, "")))
    report = Report("demo", "", False, (), (astray,), replace(groups[0].verdict), tuple(groups), spark)

    assert report.words == "4 verdicts: 1 true, 3 false"
    assert report.reasons == [
        *(f"two: {violation.message}" for violation in groups[1].verdict.violations),
        "records of sticky in t are not where they were sent",
        "Spark: not placement = read-back: 9 and 8",
    ]
    again = replace(groups[0], verdict=replace(groups[0].verdict))
    assert Report("demo", "", True, (), groups=(groups[0], again)).words == "all 2 verdicts are true"
    assert Report("demo", "", None, ()).words == "nothing was judged"


def _given_up(story: Story) -> None:
    story.tell("not_stable", waited_s=40, members=["a", "b"], due=[], generation=2, topics=story.topics)


def test_two_groups_of_one_history_have_its_violations_once() -> None:
    one = _false(Story("range", {"t": 1}).start("b").round().start("a").round())
    other = Story("range", {"v": 2}, group="h").start("z").round()
    page, verdict = page_of(History([*one.history.events, *other.history.events]))
    double = sum(violation.law in ("O1", "O2") for violation in verdict.violations)

    top = page[: page.index("Who owned what")]

    assert double > 0
    assert f"✗ {many(double, 'double owner')}" in top
    assert re.findall(r"<li>(.*?)</li>", top) == [violation.message for violation in verdict.violations]


def test_why_a_verdict_is_not_true_comes_first_and_its_reasons_are_counted() -> None:
    story = Story("range", {"t": 14}).start("b").round().start("a").round()
    page, verdict = page_of(_false(story).history)
    messages = [violation.message for violation in verdict.violations]
    assert len(messages) > 5

    top = page[: page.index("Who owned what")]

    assert "✗ false" in top
    items = re.findall(r"<li>(.*?)</li>", top)
    assert items == [*messages[:5], f"and {len(messages) - 5} more, below"]
    assert top.index(messages[0]) < top.index("double owners")
    assert page.count('<details class="broken"') == len(messages)


@pytest.mark.parametrize(
    ("damage", "words"), [(lambda story: story, "✓ true"), (_false, "✗ false"), (_given_up, "? unknown")]
)
def test_the_first_sentence_has_the_verdict(damage: Callable[[Story], Any], words: str) -> None:
    story = Story("range", {"t": 2}).start("b").round().start("a").round()
    damage(story)

    page, _ = page_of(story.history)

    (sentence,) = re.findall(r'<h1>kept</h1>\s*<p class="lead">(.*?)</p>', page)
    assert words in sentence
    assert "laws held" in sentence
    assert "2 rebalances in 2 generations" in sentence
