"""The table of `docs/versions.md` says what its kept histories show: each is judged again."""

from __future__ import annotations

import re

import pytest

from kafka_assignors.jvm import kafka_versions
from tests.matrix.cells import FOUR, MEMBERS, exists
from tests.matrix.kept import Kept, every_kept, handed_on_unasked, judge, table
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "versions.md"
OLDEST_SHOWN = "3.9.1"
OLDER = {"4.0.1.false.O1": 1, "4.0.1.false.G4": 1, "4.1.2.false.C2": 0, "4.3.0": 0}
"""History in `benchmarks/results/histories` -> how often the coordinator handed partitions on unasked."""
KEPT = every_kept()
LINK = re.compile(r"\[([^]]+)\]\(histories/([^)]+)\)")


def told() -> dict[str, str]:
    """File name of each linked history -> what the table says of it."""
    return {name: said for said, name in LINK.findall(PAGE.read_text("utf-8"))}


def shows(kept: Kept) -> None:
    judged = judge(kept.path)
    assert (kept.version, told()[kept.path.name]) == (judged.version, judged.cell)
    assert sorted(judged.members) == sorted(FOUR)
    for member, (client, assignor) in judged.members.items():
        wanted = MEMBERS[kept.whose][member]
        assert (client, wanted[1]) == (
            wanted[0],
            assignor.removeprefix(f"{client}:") if ":" not in wanted[1] else assignor,
        )


def test_every_cell_has_a_kept_history() -> None:
    """Of each version from 3.9.1 on, with each kind of members that it serves; none is linked from elsewhere."""
    versions = kafka_versions()[kafka_versions().index(OLDEST_SHOWN) :]

    assert {(kept.version, kept.whose) for kept in KEPT} == {(v, w) for v in versions for w in MEMBERS if exists(v, w)}
    assert told() == {kept.path.name: told()[kept.path.name] for kept in KEPT}


def test_the_page_has_the_table_of_these_histories() -> None:
    said = told()

    assert table({kept: said[kept.path.name] for kept in KEPT}) in PAGE.read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("kept", [*KEPT[::8], *(kept for kept in KEPT if "false" in told()[kept.path.name])], ids=str)
def test_a_kept_history_shows_what_the_table_says(kept: Kept) -> None:
    shows(kept)


@pytest.mark.long
@pytest.mark.parametrize("kept", KEPT, ids=str)
def test_every_kept_history_shows_what_the_table_says(kept: Kept) -> None:
    shows(kept)


@pytest.mark.slow
@pytest.mark.source("librdkafka rdkafka_cgrp.c rd_kafka_cgrp_consumer_serve; Kafka CurrentAssignmentBuilder")
def test_librdkafka_has_partitions_handed_on_before_it_revoked_them() -> None:
    """Each false ownership has this cause; Java's members never have it. It happens in a member's first assignment."""
    found = {kept: handed_on_unasked(kept.path) for kept in KEPT if kept.whose.endswith("KIP-848")}

    assert [kept for kept, each in found.items() if each and kept.whose != "librdkafka, KIP-848"] == []
    assert {each.epochs[0] for some in found.values() for each in some} == {1}
    assert all(found[kept] for kept in found if "O1" in told()[kept.path.name])
    older = ROOT / "benchmarks" / "results" / "histories"
    assert {kind: len(handed_on_unasked(older / f"churn.confluent-consumer.{kind}.tar.xz")) for kind in OLDER} == OLDER
