"""The first questions to a cluster that never had a group: they make it create the coordinator's log."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import CoordinatorNotAvailableError, NotCoordinatorError

from kafka_assignors.errors import ClusterError, NoSuchGroup
from kafka_assignors.integration.broker import Broker, start_broker
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.topics import create_topics
from kafka_assignors.operator.live import cluster as cluster_
from kafka_assignors.operator.live.cluster import LiveCluster
from kafka_assignors.operator.live.group import LiveGroup
from tests.support.cli import without_progress
from tests.support.live.exporting import exporting, scraped
from tests.support.places import ROOT
from tests.support.waiting import until


@pytest.fixture
def new_broker() -> Iterator[Broker]:
    with start_broker() as broker:
        yield broker


# long: a new broker; the tests below have each answer of its coordinator, test_live_groups.py the commands' sentence
@pytest.mark.long
@pytest.mark.broker
def test_every_command_says_no_such_group_and_the_exporter_waits_for_it(new_broker: Broker, tmp_path: Path) -> None:
    """All ask at once, while the coordinator of none of them is there."""
    where = ("-b", new_broker.bootstrap)
    asked = [(name, "billing", *where, *more) for name, *more in (("plan",), ("why",), ("vote",), ("watch", "--once"))]
    running = [
        subprocess.Popen([sys.executable, "-m", "kafka_assignors", *args], stderr=subprocess.PIPE, text=True, cwd=ROOT)
        for args in asked
    ]
    note = r"note: .* has no group 'billing'.*; it is counted from its first member on\n"
    with exporting("billing", *where, notes=note) as (url, _):
        for args, process in zip(asked, running, strict=True):
            _, told = process.communicate(timeout=120)
            assert (process.returncode, without_progress(told).count("\n")) == (3, 1), (args, told)
            assert "has no group 'billing'" in told
        create_topics(new_broker.bootstrap, {"orders": 2})
        with MemberGroup(new_broker.bootstrap, "billing", tmp_path, "run") as group:
            group.start("m1", ["orders"], ["range"])
            group.wait_stable()
            members = ("kafka_group_members", ("group", "billing"))
            until(lambda: scraped(url).get(members) == 1, "the exporter tells the first member", 60)


class _Admin:
    """A client whose coordinator answers as `answers` say, and then describes an empty group."""

    def __init__(self, groups: list[str], *answers: Exception | str, last: Exception | None = None) -> None:
        self._groups, self._answers, self._last = groups, list(answers), last

    def describe_groups(self, names: list[str]) -> dict[str, Any]:
        answer = self._answers.pop(0) if self._answers else self._last
        if isinstance(answer, Exception):
            raise answer
        return {names[0]: {"error": answer, "group_state": "Empty", "protocol_data": "range", "members": []}}

    def list_groups(self) -> list[dict[str, str]]:
        return [{"group_id": name, "group_type": "classic"} for name in self._groups]

    def close(self) -> None:
        pass


def described(admin: _Admin, monkeypatch: pytest.MonkeyPatch) -> LiveGroup:
    monkeypatch.setattr(cluster_, "_POLL_S", 0)
    monkeypatch.setattr(LiveCluster, "_client", lambda _: admin)
    monkeypatch.setattr(cluster_, "require_cluster", lambda *_: None)
    return LiveCluster("localhost:1").group("billing")


def test_a_coordinator_that_starts_or_moves_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """kafka-python raises an error of the search, and returns that of the group as text."""
    away = (CoordinatorNotAvailableError("starting"), NotCoordinatorError("moved"), "[Error 16] NotCoordinatorError")
    assert described(_Admin(["billing"], *away), monkeypatch).state == "Empty"


def test_a_coordinator_that_never_comes_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that can't create the coordinator's log has no groups; another one has lost its log's leaders."""
    monkeypatch.setattr(cluster_, "_COORDINATOR_S", 0)
    never = CoordinatorNotAvailableError("no leader")
    with pytest.raises(NoSuchGroup, match="localhost:1 has no group 'billing'; list the groups with"):
        described(_Admin([], last=never), monkeypatch)
    with pytest.raises(ClusterError, match=r"coordinator of group 'billing' is not available .* are the brokers of"):
        described(_Admin(["billing"], last=never), monkeypatch)
