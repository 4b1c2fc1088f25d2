"""The anomalies of Jepsen's Kafka workload by their names: the laws that find each, with a history of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafka_assignors.integration.checker import check
from tests.support.damage.laws import quiet
from tests.support.histories.story import MS, Story, churn
from tests.support.histories.transactions import Transforming, at_work
from tests.support.places import ROOT


def first(name: str, by: int) -> Callable[[dict[str, Any]], None]:
    def alter(data: dict[str, Any]) -> None:
        row, *rest = data["offsets"]
        data["offsets"] = [{**row, name: row[name] + by}, *rest]

    return alter


def of_two(second: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[dict[str, Any]], None]:
    """One poll has a second run of its first partition."""

    def alter(data: dict[str, Any]) -> None:
        row, *rest = data["offsets"]
        data["offsets"] = [row, second(row), *rest]

    return alter


def swapped(story: Story, one: int, other: int) -> Story:
    """Two sends of a key were acknowledged at each other's offsets."""
    at = story._find("ack", {"partition": 0, "topic": "t"})
    acks = [story.events[at[n]] for n in (one, other)]
    for n, ack, place in zip((one, other), acks, reversed(acks), strict=True):
        story.events[at[n]] = replace(ack, data={**ack.data, "offset": place.data["offset"]})
    return story


def transformed(change: Callable[[Transforming], object]) -> Story:
    """A transforming group, whose outputs are read back once something happened to them."""
    story = at_work().drain()
    assert isinstance(story, Transforming)
    change(story)
    return story.read_committed()


def _aborted(story: Transforming) -> None:
    at = story._find("commit_ok", {})[-1]
    event = story.events[at]
    failed = replace(event, kind="commit_fail", data={**event.data, "error": "KafkaTimeoutError"})
    story.events[at] = failed
    story.tell("rewound", "member", event.member, offsets=event.data["offsets"])


def _never_committed(story: Transforming) -> None:
    value_id, author = story.outputs[-1]
    story.outputs[-1] = value_id, {**author, "transaction": 99}


def precommitted() -> Story:
    """An output is read before its transaction's commit begins."""
    story = transformed(lambda _: None)
    at = story._find("read_back", {})[-1]
    author = story.events[at].data["author"]
    begin = next(
        e for e in story.events
        if e.kind == "commit_begin" and (e.member, e.data["transaction"]) == (author["member"], author["transaction"])
    )  # fmt: skip
    ns = begin.mono_ns - 200 * MS
    story.events[at] = replace(story.events[at], mono_ns=ns, ts_ns=ns)
    return story


ANOMALIES: dict[str, tuple[set[str], Callable[[], Story]]] = {
    "lost-write": ({"C3"}, lambda: churn().change("consume", first("first", 1))),
    "unseen": ({"C3"}, lambda: churn().drop("consume")),
    "duplicate": ({"K3"}, lambda: churn().change("ack", lambda d: d.update(value_id="p-1"), nth=9)),
    "inconsistent-offsets": ({"K3"}, lambda: churn().change("ack", lambda d: d.update(offset=0), nth=9)),
    "poll-skip": ({"C2"}, lambda: quiet().change("consume", first("first", 1), member="a")),
    "nonmonotonic-poll": ({"C2"}, lambda: quiet().change("consume", first("first", -1), member="a")),
    "int-poll-skip": ({"C2"}, lambda: quiet().change(
        "consume", of_two(lambda row: {**row, "first": row["last"] + 2, "last": row["last"] + 2, "count": 1}), nth=0)),
    "int-nonmonotonic-poll": ({"C2"}, lambda: quiet().change("consume", of_two(dict))),
    "nonmonotonic-send": ({"K2"}, lambda: swapped(churn(), 0, 1)),
    "int-nonmonotonic-send": ({"K2"}, lambda: transformed(lambda story: story.outputs.reverse())),
    "int-send-skip": ({"X1"}, lambda: transformed(lambda story: story.outputs.pop(3))),
    "precommitted-read": ({"X2"}, precommitted),
    "G1a": ({"X2"}, lambda: transformed(_aborted)),
    "G1a, never committed": ({"X2"}, lambda: transformed(_never_committed)),
}  # fmt: skip


@pytest.mark.parametrize("name", ANOMALIES)
def test_each_anomaly_is_found_by_its_law(name: str) -> None:
    laws, story = ANOMALIES[name]

    verdict = check(story().history)

    assert verdict.value is False
    assert laws <= {violation.law for violation in verdict.violations}, verdict.violations


def test_the_page_names_each_anomaly_with_its_laws() -> None:
    page = (ROOT / "docs" / "laws.md").read_text("utf-8").partition("## Anomalies by their names")[2]
    rows = re.findall(r"^\| `([\w-]+)` \| .* \| ([\w, -]+) \|$", page.partition("\n## ")[0], re.MULTILINE)
    of_page = {name: set(laws.split(", ")) for name, laws in rows if laws != "-"}

    assert of_page.keys() == {name.partition(",")[0] for name in ANOMALIES}
    for name, (laws, _) in ANOMALIES.items():
        assert laws <= of_page[name.partition(",")[0]], name
