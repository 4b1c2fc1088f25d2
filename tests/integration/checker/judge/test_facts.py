"""Every fact of a history is checked, or free for a reason: kept histories are changed fact by fact, and judged."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import pytest

from kafka_assignors.integration.checker.laws import LAWS
from tests.support.damage.facts import EVENT, TABLE, Edit, Fact, Kept, hows
from tests.support.damage.walk import DAMAGES, Trial, drawn, each_fact, words
from tests.support.facts_page import AGAINST, BEGIN, END, LAWS_PAGE, PAGE, laws_page, page
from tests.support.histories.kept import WALKED, unpacked
from tests.support.histories.rare import RARE
from tests.support.histories.schema import RULES, SCHEMA

QUICK = ("4.3.1.ours.0", "4.3.1.sarama-and-ours.0", "4.3.1.librdkafka-kip-848.1")
OF_EVERY_KIND = (
    *("4.3.1.everyone.0", "4.3.1.java-kip-848.0", "4.3.1.librdkafka-kip-848.1", "3.9.1.sarama-and-ours.0"),
    *("4.3.1.franz-go-and-ours.0", "4.3.1.aiokafka.0", "ours.sticky.0", "java.cooperative-sticky.0"),
    *("migration.confluent", "exactly-once"),
)
NOT_FACTS = ("v", "run", "src", "seq", "kind")
"""Fields that the form of a history fixes: the version, the run, the source of a kind, the number of a line."""


def of_schema() -> Iterator[Fact]:
    """Each fact that a valid line may have."""
    for kind, rule in RULES.items():
        if kind == "end":
            continue  # closes a file; it is no event of the run
        yield Fact(kind, EVENT)
        for name, what in rule["properties"].items():
            if name not in NOT_FACTS:
                yield from _fields(kind, name, what)
    for name in SCHEMA["properties"]:
        if name not in NOT_FACTS:
            yield Fact("*", name)


def _fields(kind: str, field: str, what: Mapping[str, Any]) -> Iterator[Fact]:
    if "$ref" in what:
        what = SCHEMA["$defs"][what["$ref"].rpartition("/")[2]]
    if what.get("type") == "array":
        yield Fact(kind, field)
        yield from _fields(kind, f"{field}[]", what["items"])
    elif what.get("type") == "object" and field.endswith("[]"):
        for name, inner in what["properties"].items():
            yield from _fields(kind, f"{field}.{name}", inner)
    else:
        yield Fact(kind, field)
        for name, inner in what.get("properties", {}).items() if what.get("type") == "object" else ():
            yield from _fields(kind, f"{field}.{name}", inner)


def test_the_table_has_every_fact_and_no_other() -> None:
    of_table = {Fact(kind, field) for kind, fields in TABLE.items() for field in fields}
    common = {Fact(kind, name) for kind in TABLE for name in SCHEMA["properties"]}
    config = {fact for fact in of_table if fact.field.startswith("config.")}

    assert set(of_schema()) - of_table == set()
    assert of_table - set(of_schema()) - common - config == set()


def test_each_fact_is_checked_by_laws_that_exist_or_free_for_a_reason() -> None:
    for kind, fields in TABLE.items():
        for field, said in fields.items():
            assert set(said) <= {"by", "free"}, (kind, field)
            assert set(said.get("by", "").split()) <= {*LAWS, "form"}, (kind, field)
            assert set(said.get("by", "").split()) <= set(AGAINST), (kind, field)
            assert said.get("by") or len(said.get("free", "")) > 20, (kind, field)


def test_the_pages_are_those_of_the_table() -> None:
    laws = LAWS_PAGE.read_text("utf-8")

    assert PAGE.read_text("utf-8") == page()
    assert laws.count(BEGIN) == laws.count(END) == 1
    assert laws == laws_page(laws)


def survivors(kept: Kept, trials: Iterable[Trial]) -> list[list[dict[str, Any]]]:
    """Changes of checked facts that nothing notices."""
    return [[words(kept, edit) for edit in trial.edits] for trial in trials if trial.survives]


def told(name: str, folder: Path) -> Kept:
    """A history of `RARE`, read from its files."""
    return Kept(RARE[name]().write(folder / "history"))


@pytest.mark.parametrize("name", RARE)
def test_a_history_told_by_hand_is_true_as_it_is(name: str, tmp_path: Path) -> None:
    assert told(name, tmp_path).verdict().value is True


@pytest.mark.slow
def test_what_notices_a_change_is_what_the_whole_verdict_says(tmp_path: Path) -> None:
    """The first broken law is enough; nothing is noticed where the whole verdict is true, and nowhere else."""
    kept, random = told("told.aborted", tmp_path), Random(3)
    facts = sorted(kept.facts)
    answers = []
    for _ in range(60):
        fact = random.choice(facts)
        place = random.choice(kept.facts[fact])
        changed = kept.edited([Edit(fact, place, random.choice(hows(kept, fact, place)))], random)
        verdict, notice = kept.verdict(changed.files), kept.notice(changed)
        answers.append(notice)
        laws = {violation.law for violation in verdict.violations}
        assert notice is None if verdict.value is True else notice in {*laws, "form", "unknown"}, changed.edits

    assert {"form", None} < set(answers)


@pytest.mark.slow
@pytest.mark.parametrize("name", RARE)
def test_no_checked_fact_of_a_history_told_by_hand_can_be_changed(name: str, tmp_path: Path) -> None:
    """In any way: these histories have the events that few kept ones have."""
    kept = told(name, tmp_path)

    assert survivors(kept, each_fact(kept, seed=1)) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", QUICK)
def test_no_checked_fact_of_a_kept_history_can_be_changed(name: str, tmp_path: Path) -> None:
    kept = Kept(unpacked(name, tmp_path))

    assert survivors(kept, each_fact(kept, seed=len(name), most=1)) == []


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", WALKED)
def test_no_checked_fact_of_any_kept_history_can_be_changed_in_any_way(name: str, tmp_path: Path) -> None:
    kept = Kept(unpacked(name, tmp_path))

    assert survivors(kept, each_fact(kept, crc32(name.encode()))) == []


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", WALKED)
def test_damages_of_one_to_three_facts_are_never_true(name: str, tmp_path: Path) -> None:
    """20,000 in all. True only where all facts that were changed are free, at least partly."""
    kept = Kept(unpacked(name, tmp_path))

    assert survivors(kept, drawn(kept, name, -(-DAMAGES // len(WALKED)))) == []


@pytest.mark.slow
def test_the_kept_histories_are_of_every_kind_of_member(tmp_path: Path) -> None:
    """Each client, eager, cooperative and KIP-848, static, migrated. transforming. `RARE` has who finishes."""
    kinds = {
        kind for name in OF_EVERY_KIND for row in starts(unpacked(name, tmp_path / name)) for kind in kinds_of(row)
    }
    of_rare = {kind for name in RARE for row in starts(RARE[name]().write(tmp_path / name)) for kind in kinds_of(row)}

    assert len(WALKED) >= 40
    assert set(OF_EVERY_KIND) <= set(WALKED)
    assert kinds == {
        *("kafka-python", "aiokafka", "confluent", "java", "confluent-consumer", "java-consumer", "franz-go", "sarama"),
        *("range", "sticky", "cooperative-sticky", "uniform", "static", "transforming"),
        *("fault_begin kill", "fault_begin pause", "fault_begin stall", "admin_change add_partitions"),
    }
    assert of_rare >= {"finishing", "admin_change subscribe"}


def starts(folder: Path) -> Iterator[dict[str, Any]]:
    for path in folder.glob("*.jsonl"):
        with path.open(encoding="utf-8") as lines:
            yield from (
                row for row in map(json.loads, lines) if row["kind"] in ("start", "admin_change", "fault_begin")
            )


def kinds_of(row: Mapping[str, Any]) -> Iterator[str]:
    if row["kind"] != "start":
        yield f"{row['kind']} {row.get('fault') or row['change']}"
        return
    yield row.get("client") or "a service"
    yield from row["assignors"]
    if "instance_id" in row:
        yield "static"
    if row["config"].get("output"):
        yield "transforming"
    if row["config"].get("finishes"):
        yield "finishing"
