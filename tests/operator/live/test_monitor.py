"""The monitor of several groups where some are hidden, begin later or end; its cluster and its log are values here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from kafka_assignors.connection import Connection, Right
from kafka_assignors.connection.rights import refusal
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import AccessRefused, NoSuchGroup
from kafka_assignors.history.generations import Log
from kafka_assignors.operator.cli.serving.exporter import FIND_S, Finder
from kafka_assignors.operator.live import monitor as monitor_
from kafka_assignors.operator.live.group import LiveGroup, LiveMember, LiveTopics
from kafka_assignors.operator.live.monitor import LAGS_S, Monitor
from kafka_assignors.operator.live.silence import Position
from tests.support.live.log import LogStory

WHERE = Connection.of("localhost:1")


class Cluster:
    """A cluster with groups of one member each on a topic of the group's name; some groups and topics are hidden."""

    connection = WHERE

    def __init__(self, kinds: dict[str, str], hidden: Collection[str] = (), topics: Collection[str] = ()) -> None:
        self.kinds, self.hidden, self.hidden_topics = kinds, set(hidden), set(topics)

    def groups(self) -> dict[str, str]:
        return dict(self.kinds)

    def group(self, name: str) -> LiveGroup:
        if name in self.hidden:
            raise refusal(WHERE, Right("Describe", "Group", name))
        if name not in self.kinds:
            raise NoSuchGroup(f"no group {name!r}")
        member = LiveMember(f"{name}-1", "m", "h", frozenset({name}), (TopicPartition(name, 0),))
        return LiveGroup(name, "Stable", self.kinds[name], "range", (member,))

    def visible(self, wanted: Collection[str]) -> tuple[LiveTopics, Mapping[str, AccessRefused]]:
        hidden = {
            topic: refusal(WHERE, Right("Describe", "Topic", topic)) for topic in self.hidden_topics & set(wanted)
        }
        return LiveTopics({topic: 1 for topic in wanted if topic not in hidden}), hidden

    def visibly_committed(self, group: str, topics: Collection[str]) -> Any:
        _, hidden = self.visible([group])
        return {TopicPartition(group, 0): Position(7, 10)} if not hidden else {}, hidden

    def topic_names(self) -> dict[str, str]:
        return {}


class Tail:
    """The coordinator's log: a story for each group; `refuses` is why it can't be read."""

    stories: dict[str, LogStory] = {}
    refuses: AccessRefused | None = None

    def __init__(self, _where: Any, groups: Sequence[str], most: int, *, follow: bool) -> None:
        assert follow
        if self.refuses is not None:
            raise self.refuses
        self.groups: list[str] = []
        self.history: dict[str, Log] = {}
        self.follow(groups, most)

    def follow(self, groups: Sequence[str], most: int) -> None:
        new = [group for group in groups if group not in self.groups]
        self.groups = list(groups)
        self.history |= {group: self.stories[group].log if group in self.stories else Log((), True) for group in new}

    def read(self, timeout_s: float) -> dict[str, list[Any]]:
        return {group: [] for group in self.groups}

    def close(self) -> None:
        pass


@pytest.fixture
def tail(monkeypatch: pytest.MonkeyPatch) -> type[Tail]:
    class OfTest(Tail):
        stories = {name: LogStory().given({"m": [0]}) for name in ("a", "b", "c")}

    monkeypatch.setattr(monitor_, "LogTail", OfTest)
    monkeypatch.setattr(monitor_.time, "sleep", lambda _: None)
    return OfTest


def test_a_hidden_group_is_unknown_and_named_and_the_others_are_read(tail: type[Tail]) -> None:
    notes: list[str] = []
    cluster: Any = Cluster({"a": "classic", "b": "classic"}, hidden=["b"])

    with Monitor(cluster, ["a", "b"], notes.append) as monitor:
        a, b = monitor.read(0)

    assert (a.live is not None, a.unknown) == (True, ())
    assert b.live is None
    assert "Describe on Group b" in b.unknown[0]
    assert [note.partition(":")[0] for note in notes] == ["group 'b' is unknown"]


def test_where_no_group_may_be_seen_the_refusal_is_raised(tail: type[Tail]) -> None:
    cluster: Any = Cluster({"a": "classic", "b": "classic"}, hidden=["a", "b"])
    with pytest.raises(AccessRefused, match="Describe on Group a"):
        Monitor(cluster, ["a", "b"], print)


def test_a_hidden_topic_leaves_the_figures_of_the_other_groups(tail: type[Tail]) -> None:
    notes: list[str] = []
    tail.stories = {"a": LogStory().given({"m": [0]}), "b": LogStory().given({"m": [0]}, topics={"m": ["b"]})}
    cluster: Any = Cluster({"a": "classic", "b": "classic"}, topics=["b"])

    with Monitor(cluster, ["a", "b"], notes.append, lags_s=LAGS_S) as monitor:
        a, b = monitor.read(0)
        monitor.read(0)

    assert (a.gap, a.positions) == (0, {TopicPartition("a", 0): Position(7, 10)})
    assert (b.gap, b.positions) == (None, {})
    assert a.unknown == ()
    assert "Describe on Topic b" in b.unknown[0]
    told = [note.partition(":")[0] for note in notes]
    assert told == ["lag of group 'b' in topic 'b' is unknown", "plan_gap is not told"], "once each"


def test_without_the_log_classic_groups_are_polled_and_the_others_are_unknown(tail: type[Tail]) -> None:
    tail.refuses = refusal(WHERE, Right("Read", "Topic", "__consumer_offsets"))
    notes: list[str] = []
    cluster: Any = Cluster({"a": "classic", "b": "consumer"})

    with Monitor(cluster, ["a", "b"], notes.append) as monitor:
        a, b = monitor.read(0)
        cluster.kinds |= {"c": "consumer", "d": "classic"}
        monitor.watch(["a", "b", "c", "d"])
        _, _, c, d = monitor.read(0)

    assert (a.may_miss, a.live is not None) == (True, True)
    assert (b.live, "Read on Topic __consumer_offsets" in b.unknown[0]) == (None, True)
    assert (c.live, len(c.unknown)) == (None, 1)
    assert (d.may_miss, d.live is not None) == (True, True)
    with pytest.raises(AccessRefused, match="__consumer_offsets"):
        Monitor(cluster, ["b"], notes.append)


def test_groups_that_a_pattern_means_come_and_go(tail: type[Tail]) -> None:
    """Looked for each `FIND_S`; what began is counted, what ended is forgotten, and a group by name stays."""
    cluster: Any = Cluster({"a": "classic"})
    notes: list[str] = []
    with Monitor(cluster, ["a"], notes.append, waiting=True, lags_s=LAGS_S) as monitor:
        finder = Finder(cluster, monitor, ["[ab]", "later"])

        def seen(now_s: float) -> dict[str, bool]:
            finder.look(now_s)
            return {reading.group: reading.live is not None for reading in monitor.read(0)}

        assert seen(0) == {"a": True, "later": False}
        cluster.kinds["b"] = "classic"
        assert seen(FIND_S / 2) == {"a": True, "later": False}
        assert seen(FIND_S) == {"a": True, "b": True, "later": False}
        del cluster.kinds["a"]
        assert seen(2 * FIND_S) == {"b": True, "later": False}
        del cluster.kinds["b"]
        assert seen(3 * FIND_S) == {"later": False}
    assert [note for note in notes if "later" in note] == ["no group 'later'; it is counted from its first member on"]


def test_a_monitor_may_begin_without_any_group(tail: type[Tail]) -> None:
    cluster: Any = Cluster({})
    with Monitor(cluster, [], print, waiting=True) as monitor:
        assert monitor.read(0) == []
        cluster.kinds["a"] = "classic"
        monitor.watch(["a"])
        (reading,) = monitor.read(0)
        (reading,) = monitor.read(0)
    assert reading.live is not None
