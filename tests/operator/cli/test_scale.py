"""`scale`: what it says of a measured group, as text and as JSON; its page shows the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import ClusterError
from kafka_assignors.frame import NO, UNKNOWN, YES, Common
from kafka_assignors.operator.cli import scale
from kafka_assignors.operator.live.group import LiveGroup, LiveMember, LiveTopics
from kafka_assignors.operator.live.meter import Totals
from kafka_assignors.operator.live.monitor import Reading
from kafka_assignors.operator.live.silence import Position
from kafka_assignors.operator.scaling import Rules
from tests.support.cli import valid
from tests.support.pages import example

MEMBERS, PACE = 4, 50.0


class Watched:
    """A monitor of a group with 12 partitions: each look is 5 s later; `clock` is the time of the last one."""

    wait_s = 0.0

    def __init__(self, rate: float, backlog: int, *, unknown: str = "", members: int = MEMBERS) -> None:
        self._rate, self._backlog, self._unknown, self._count = rate, backlog, unknown, members
        self.clock = 0.0

    def read(self, timeout_s: float) -> list[Reading]:
        self.clock += 5
        owned = [tuple(TopicPartition("orders", p) for p in range(n, 12, MEMBERS)) for n in range(self._count)]
        members = tuple(LiveMember(f"m{n}-1", f"m{n}", "h", frozenset({"orders"}), tps) for n, tps in enumerate(owned))
        live = LiveGroup("billing", "Stable", "classic", "cooperative-sticky", members, 7)
        read = min(self._rate, PACE * MEMBERS / 12) if self._backlog else self._rate
        position = {
            TopicPartition("orders", p): Position(int(read * self.clock), int(self._rate * self.clock) + self._backlog)
            for p in range(12)
        }
        unknown = (self._unknown,) if self._unknown else ()
        return [
            Reading(
                "billing", Totals(), live, 0, False,
                positions=position, unknown=unknown, topics=LiveTopics({"orders": 12}),
            )
        ]  # fmt: skip

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command on a watched group; its exit code."""

    @contextmanager
    def cluster(_where: object) -> Iterator[Any]:
        yield SimpleNamespace(group=lambda _name: None)

    def run_it(watched: Watched, *, as_json: bool = False, pace: float | None = None) -> int:
        monkeypatch.setattr(scale, "LiveCluster", cluster)
        monkeypatch.setattr(scale, "Monitor", lambda *_args, **_kwargs: watched)
        monkeypatch.setattr(scale, "time", SimpleNamespace(monotonic=lambda: watched.clock))
        return scale.run(Common(as_json=as_json, bootstrap="localhost:1"), "billing", Rules(30), pace, 60)

    return run_it


def test_the_page_shows_what_is_printed(
    run: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    assert run(Watched(20.0, 200)) == NO
    assert capsys.readouterr().out == example("docs/scaling.md", "members  partitions", "text")


def test_the_json_has_the_same(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    assert run(Watched(20.0, 200), as_json=True) == NO

    told = valid("scale", json.loads(capsys.readouterr().out))
    assert (told["now"], told["measured"], told["assignor"]) == (4, True, "cooperative-sticky")
    assert told["members"] == 6
    assert told["rate"] == pytest.approx(240, rel=0.01)
    assert told["pace"] == pytest.approx(PACE, rel=0.01)
    assert [size["members"] for size in told["sizes"]] == [1, 2, 3, 4, 6, 12]


@pytest.mark.parametrize(
    ("rate", "backlog", "pace", "code", "words"),
    [
        (15.0, 0, 50.0, YES, "4 members for a delay of 30 s: fewer than 4 don't keep"),
        (15.0, 0, None, UNKNOWN, "is unknown: no member was busy"),
        (1.0, 0, 50.0, NO, "1 member for a delay of 30 s"),
        (0.0, 0, None, UNKNOWN, "unknown: no member has read anything"),
    ],
)
def test_the_exit_code_tells_the_answer(
    rate: float, backlog: int, pace: float | None, code: int, words: str, run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Watched(rate, backlog), pace=pace) == code
    assert words in " ".join(capsys.readouterr().out.split())


def test_what_cannot_be_seen_ends_it(run: Any) -> None:
    with pytest.raises(ClusterError, match="Describe on Topic orders"):
        run(Watched(20.0, 200, unknown="user 'u' lacks the permission Describe on Topic orders"))
    with pytest.raises(ClusterError, match="no members"):
        run(Watched(20.0, 0, members=0))
