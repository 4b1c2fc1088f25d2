"""Every fact of a history is checked, or free for a reason: kept histories are changed fact by fact, and judged."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kafka_assignors.integration.checker.laws import LAWS
from tests.support.damage.facts import EVENT, TABLE, Edit, Fact, Kept, entry, hows
from tests.support.facts_page import PAGE, page, state
from tests.support.histories.kept import unpacked
from tests.support.places import ROOT

SCHEMA = json.loads((ROOT / "integration/history/history.schema.json").read_text("utf-8"))
HISTORIES = sorted(path.name.removesuffix(".tar.xz") for path in (ROOT / "docs" / "histories").glob("*.tar.xz"))
SOUND = [name for name in HISTORIES if ".false" not in name]
QUICK = ("4.3.1.ours.0", "4.3.1.sarama-and-ours.0", "4.3.1.librdkafka-kip-848.1")
NOT_FACTS = ("v", "run", "src", "seq", "kind")
"""Fields that the form of a history fixes: the version, the run, the source of a kind, the number of a line."""


def of_schema() -> Iterator[Fact]:
    """Each fact that a valid line may have."""
    for rule in SCHEMA["allOf"]:
        kind = rule["if"]["properties"]["kind"]["const"]
        if kind == "end":
            continue  # closes a file; it is no event of the run
        yield Fact(kind, EVENT)
        for name, what in rule["then"]["properties"].items():
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
            assert set(said) <= {"by", "against", "free"}, (kind, field)
            assert set(said.get("by", "").split()) <= {*LAWS, "form"}, (kind, field)
            assert ("by" in said) == ("against" in said), (kind, field)
            assert said.get("by") or len(said.get("free", "")) > 20, (kind, field)


def test_the_page_is_that_of_the_table() -> None:
    assert PAGE.read_text("utf-8") == page()


def walk(folder: Path, seed: int, most: int | None) -> list[str]:
    """Facts of a kept history that could be changed, though the table says that they are checked.

    Args:
        most: Number of ways in which each fact is changed; None: all.
    """
    random, kept, survivors = Random(seed), Kept(folder), []
    for fact, places in sorted(kept.facts().items()):
        said = entry(fact)
        assert said is not None, f"the table has no entry for {fact}"
        if state(said) != "checked":
            continue
        place = random.choice(places)
        ways = hows(kept, fact, place)
        for how in ways if most is None else random.sample(ways, min(most, len(ways))):
            changed = kept.edited([Edit(fact, place, how)], random)
            if changed.edits and kept.verdict(changed.files).value is True:
                survivors.append(f"{fact.kind} {fact.field} {how}: {place}")
    return survivors


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", QUICK)
def test_no_checked_fact_of_a_kept_history_can_be_changed(name: str, tmp_path: Path) -> None:
    assert walk(unpacked(name, tmp_path), seed=len(name), most=1) == []


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SOUND)
def test_no_checked_fact_of_any_kept_history_can_be_changed_in_any_way(name: str, tmp_path: Path) -> None:
    assert walk(unpacked(name, tmp_path), seed=1, most=None) == []


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", SOUND)
def test_damages_of_one_to_three_facts_are_never_true(name: str, tmp_path: Path) -> None:
    """300 in each history: 20,000 in all. True only where all facts that were changed are free, at least partly."""
    kept, random = Kept(unpacked(name, tmp_path)), Random(name)
    facts = kept.facts()
    for _ in range(300):
        chosen = random.sample(sorted(facts), random.randint(1, 3))
        edits = []
        for fact in chosen:
            place = random.choice(facts[fact])
            edits.append(Edit(fact, place, random.choice(hows(kept, fact, place))))
        changed = kept.edited(edits, random)
        if changed.edits and kept.verdict(changed.files).value is True:
            assert all(state(entry(edit.fact) or {}) != "checked" for edit in changed.edits), changed.edits
