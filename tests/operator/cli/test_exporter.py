"""`exporter`: its metrics, the rules and the dashboard made of them, and a group of a real broker."""

from __future__ import annotations

import json
import re
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import ClusterError
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.operator.cli.app import main
from kafka_assignors.operator.cli.serving import exporter
from kafka_assignors.operator.cli.serving.exporter import FIND_S, PREFIX, Finder, Readings, serving
from kafka_assignors.operator.live.cluster import LiveCluster
from kafka_assignors.operator.live.group import LiveGroup, LiveMember, LiveTopics
from kafka_assignors.operator.live.meter import Totals
from kafka_assignors.operator.live.monitor import Monitor, Reading
from kafka_assignors.operator.live.overview import watchable
from kafka_assignors.operator.live.silence import Position
from kafka_assignors.operator.scaling import Rules
from tests.support.collector import collecting
from tests.support.live.exporting import exporting, scraped
from tests.support.places import ROOT
from tests.support.waiting import until

MONITORING = ROOT / "examples" / "monitoring"


def reading(may_miss: bool = False) -> Reading:
    member = LiveMember("m-1", "m", "h", frozenset({"t"}), (TopicPartition("t", 0),))
    live = LiveGroup("g", "Stable", "classic", "range", (member,), None if may_miss else 7)
    positions = {TopicPartition("t", 0): Position(7, 10), TopicPartition("u", 1): Position(5, 5)}
    return Reading(
        "g", Totals(moved=3, needless=1, ownerless_ms=2500.0), live, 2, may_miss,
        positions=positions, topics=LiveTopics({"t": 1}),
    )  # fmt: skip


def served(*now: Reading, partitions: bool = False, rules: Rules | None = None) -> dict[Any, float]:
    """What is served after looks at the readings, half a minute apart."""
    readings = Readings(partitions=partitions, rules=rules)
    for n, reading in enumerate(now):
        readings.take((reading,), 30.0 * n)
    with serving(readings, "127.0.0.1", 0) as url:
        return scraped(url)


@pytest.mark.slow
def test_the_metrics_are_the_readings() -> None:
    told = served(reading())
    group = ("group", "g")
    assert told[f"{PREFIX}partitions_moved_total", group] == 3
    assert told[f"{PREFIX}needless_moves_total", group] == 1
    assert told[f"{PREFIX}ownerless_seconds_lower_bound_total", group] == 2.5
    assert told[f"{PREFIX}rebalances_total", ("cause", "joined"), group] == 0, (
        "a series from the start: increase() works"
    )
    assert told[f"{PREFIX}generation", group] == 7
    assert (told[f"{PREFIX}members", group], told[f"{PREFIX}plan_gap", group]) == (1, 2)
    assert not any("partition_owner" in name for name, *_ in told)
    assert {key[2][1]: value for key, value in told.items() if key[0] == f"{PREFIX}lag_records"} == {"t": 3, "u": 0}
    assert told[f"{PREFIX}unknown", group] == 0
    assert not {f"{PREFIX}members_wanted", f"{PREFIX}delay_seconds"} & {name for name, *_ in told}
    owner = (f"{PREFIX}partition_owner", ("group", "g"), ("member", "m"), ("partition", "0"), ("topic", "t"))
    by_partition = served(reading(), partitions=True)
    assert by_partition[owner] == 1
    assert by_partition[f"{PREFIX}partition_lag_records", group, ("partition", "0"), ("topic", "t")] == 3


def hidden() -> Reading:
    """A group that may not be seen."""
    return Reading("g", Totals(), None, None, False, unknown=("user 'u' lacks the permission Describe on Group g",))


@pytest.mark.slow
def test_a_hidden_group_is_unknown_and_has_no_figures() -> None:
    told = served(hidden())

    assert told[f"{PREFIX}unknown", ("group", "g")] == 1
    assert not {f"{PREFIX}members", f"{PREFIX}lag_records", f"{PREFIX}generation"} & {name for name, *_ in told}


def behind(at_s: float) -> Reading:
    """Ten partitions, two members; each partition gets 20 records a second, each member reads 50."""
    owned = [tuple(TopicPartition("t", p) for p in range(n, 10, 2)) for n in range(2)]
    members = tuple(LiveMember(f"m{n}-1", f"m{n}", "h", frozenset({"t"}), tps) for n, tps in enumerate(owned))
    live = LiveGroup("g", "Stable", "classic", "sticky", members, 7)
    positions = {TopicPartition("t", p): Position(int(10 * at_s), int(20 * at_s) + 500) for p in range(10)}
    return Reading("g", Totals(), live, 2, False, positions=positions, topics=LiveTopics({"t": 10}))


@pytest.mark.slow
def test_with_a_delay_the_number_of_members_is_told() -> None:
    """Each member reads half of what comes; five would read all of it."""
    told = served(*map(behind, (0, 30, 60, 90)), rules=Rules(delay_s=60))

    assert told[f"{PREFIX}members", ("group", "g")] == 2
    assert told[f"{PREFIX}members_wanted", ("group", "g")] == 5
    assert told[f"{PREFIX}delay_seconds", ("group", "g")] > 300
    assert f"{PREFIX}members_wanted" not in {name for name, *_ in served(behind(0), rules=Rules(delay_s=60))}


def test_a_reading_without_a_new_look_changes_no_answer_and_a_group_that_ended_is_forgotten() -> None:
    readings, looks = Readings(rules=Rules(delay_s=60)), [behind(at_s) for at_s in (0, 30, 60, 90)]
    for n, look in enumerate(looks):
        readings.take((look,), 30.0 * n)
    before = readings.scaled["g"]

    readings.take((looks[-1],), 95.0)
    assert readings.scaled["g"] is before
    readings.take((), 100.0)
    assert readings.scaled == {}


@pytest.mark.slow
def test_what_polling_cannot_tell_is_absent() -> None:
    told = served(reading(may_miss=True))
    assert told[f"{PREFIX}may_miss_rebalances", ("group", "g")] == 1
    assert not {f"{PREFIX}generation", f"{PREFIX}needless_moves_total"} & {name for name, *_ in told}


@pytest.mark.slow
def test_rules_and_dashboard_name_metrics_and_causes_that_exist() -> None:
    told = {**served(reading()), **served(*map(behind, (0, 30)), rules=Rules(delay_s=60))}
    names = {name for name, *_ in told}
    causes = {label[1] for _, *labels in told for label in labels if label[0] == "cause"}
    rules = [
        rule for group in yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"] for rule in group["rules"]
    ]
    board = json.loads((MONITORING / "dashboard.json").read_text())
    queries = [rule["expr"] for rule in rules]
    queries += [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    queries += [v["query"]["query"] for v in board["templating"]["list"] if v["type"] == "query"]

    used = {name for query in queries for name in re.findall(r"kafka_[a-z_]+", query)}
    assert used <= names, used - names
    by_partition = {f"{PREFIX}partition_owner", f"{PREFIX}partition_lag_records"}
    assert names - used <= by_partition, "each metric is on the dashboard or in a rule"
    assert {cause for query in queries for cause in re.findall(r'cause="([^"]*)"', query)} <= causes


@pytest.mark.slow
def test_a_port_that_is_taken_is_one_sentence() -> None:
    with serving(Readings(), "127.0.0.1", 0) as url:
        again = serving(Readings(), "127.0.0.1", urlsplit(url).port or 0)
        with pytest.raises(ClusterError, match="--port"):
            again.__enter__()


@pytest.mark.slow
def test_requests_that_never_end_keep_no_scrape_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest connections are closed for new ones, and each one after a time without a byte."""
    monkeypatch.setattr(exporter._Handler, "timeout", 0.5)
    with serving(Readings(), "127.0.0.1", 0) as url, ExitStack() as kept:
        before, port = threading.active_count(), urlsplit(url).port or 0
        halves = [kept.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30)) for _ in range(100)]
        for half in halves:
            half.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
        assert scraped(url)[(f"{PREFIX}exporter_reachable",)] == 1
        until(lambda: threading.active_count() <= before + exporter.MOST_CONNECTIONS, "few threads are left")
        assert [half.recv(1) for half in halves] == [b""] * len(halves)
        until(lambda: threading.active_count() <= before, "none is left")


@pytest.fixture
def live_group(kafka_broker: Broker, tmp_path: Path) -> Iterator[MemberGroup]:
    with MemberGroup(kafka_broker.bootstrap, f"g-{uuid.uuid4().hex[:8]}", tmp_path / "history", "run") as group:
        yield group


# long: operator/live/test_meter.py counts each cause, tests/history/test_one_history.py as `why` tells it,
# test_otlp.py has the collector
@pytest.mark.long
def test_a_join_and_a_kill_are_counted_with_their_causes(
    kafka_broker: Broker, kafka_topic: Callable[..., str], live_group: MemberGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rebalance once, with its cause, as `why` tells it later; those before the start not at all.

    Prometheus and a collector of OTLP are told the same.
    """
    group, topic = live_group, kafka_topic(partitions=6)
    for name in ("m1", "m2"):
        group.start(name, [topic], ["cooperative-sticky"])
    before = group.wait_stable().generation
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "200")
    with (
        collecting() as collector,
        exporting(group.group, "-b", kafka_broker.bootstrap, "--partitions", "--otlp", collector.url) as (url, _),
    ):
        name = ("group", group.group)

        def causes() -> dict[str, float]:
            return {
                key[1][1]: value for key, value in scraped(url).items() if key[0].endswith("rebalances_total") and value
            }

        assert causes() == {}
        assert scraped(url)[f"{PREFIX}generation", name] == before
        group.start("m3", [topic], ["cooperative-sticky"])
        joined = group.wait_stable()
        until(lambda: causes() == {"joined": 1}, "the join is counted", 60)
        group.kill("m2")
        last = group.wait_stable()
        until(lambda: causes() == {"joined": 1, "left or expired": 1}, "the kill is counted", 60)
        told = scraped(url)
        until(lambda: collector.told() == told, "the collector has the same", 30)
    assert joined.generation > before
    assert told[f"{PREFIX}generation", name] == last.generation
    assert (told[f"{PREFIX}members", name], told[f"{PREFIX}imbalance_ratio", name]) == (2, 1)
    assert told[f"{PREFIX}partitions_moved_total", name] == 4, "2 to m3, and the 2 of m2"
    assert (told[f"{PREFIX}needless_moves_total", name], told[f"{PREFIX}plan_gap", name]) == (0, 0)
    assert sum(key[0] == f"{PREFIX}partition_owner" for key in told) == 6
    assert told[f"{PREFIX}may_miss_rebalances", name] == 0


# long: operator/live/test_meter.py counts from any start on; test_tour.py scrapes the exporter of a live group
@pytest.mark.long
def test_a_group_that_has_yet_to_begin_is_noted_and_counted_from_its_first_member_on(
    kafka_broker: Broker, kafka_topic: Callable[..., str], live_group: MemberGroup
) -> None:
    group, topic = live_group, kafka_topic(partitions=2)
    note = rf"note: .* has no group '{group.group}'.*; it is counted from its first member on\n"
    with exporting(group.group, "-b", kafka_broker.bootstrap, notes=note) as (url, _):
        name = ("group", group.group)
        assert (f"{PREFIX}members", name) not in scraped(url)
        group.start("m1", [topic], ["cooperative-sticky"])
        group.wait_stable()
        first = (f"{PREFIX}rebalances_total", ("cause", "first"), name)
        until(lambda: scraped(url)[first] == 1, "the first generation is counted", 60)
        assert scraped(url)[f"{PREFIX}members", name] == 1


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.release("a group that begins later is counted above")
def test_groups_that_begin_later_are_found_and_each_rebalance_counts_once(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Both groups are in one partition of the log, which is read again for the one that came later."""
    topic, mark, notes = kafka_topic(partitions=4), f"later-{uuid.uuid4().hex[:8]}", list[str]()

    def group(name: str) -> MemberGroup:
        return MemberGroup(kafka_broker.bootstrap, f"{mark}-{name}", tmp_path / name, "run")

    with (
        LiveCluster(kafka_broker.bootstrap) as cluster,
        Monitor(
            cluster, watchable(cluster, [f"{mark}-*"], waiting=True), notes.append, waiting=True, lags_s=1
        ) as monitor,
        group("a") as a,
        group("b") as b,
    ):
        finder, now = Finder(cluster, monitor, [f"{mark}-*"]), dict[str, Reading]()

        def counted() -> dict[str, dict[str, int]]:
            now.clear()
            now.update({reading.group.removeprefix(f"{mark}-"): reading for reading in monitor.read(0.2)})
            return {
                name: {cause: count for cause, count in reading.totals.rebalances.items() if count}
                for name, reading in now.items()
            }

        finder.look(0)
        assert counted() == {}
        a.start("m1", [topic], ["cooperative-sticky"])
        a.wait_stable()
        finder.look(FIND_S)
        assert counted() == {"a": {}}
        b.start("m1", [topic], ["cooperative-sticky"])
        b.wait_stable()
        a.start("m2", [topic], ["cooperative-sticky"])
        a.wait_stable()
        finder.look(2 * FIND_S)
        b.start("m2", [topic], ["cooperative-sticky"])
        b.wait_stable()
        until(lambda: counted() == {"a": {"joined": 1}, "b": {"joined": 1}}, "both are counted", 60)
        assert [len(now[name].live.members) for name in "ab"] == [2, 2]  # type: ignore[union-attr]
        assert notes == []


def test_the_compose_file_mounts_what_is_there_and_runs_a_real_command_line() -> None:
    services = yaml.safe_load((MONITORING / "compose.yml").read_text("utf-8"))["services"]

    assert set(services) == {"exporter", "prometheus", "grafana"}
    for service in services.values():
        for mount in service["volumes"]:
            assert (MONITORING / mount.split(":")[0]).exists(), mount
    script = services["exporter"]["command"][-1]
    words = script.split("exec kafka-assignors ")[1].replace("${KAFKA_GROUPS:?names of groups}", "billing").split()
    scraped = yaml.safe_load((MONITORING / "prometheus.yml").read_text("utf-8"))["scrape_configs"][0]["static_configs"]
    assert scraped[0]["targets"] == [f"exporter:{words[words.index('--port') + 1]}"]
    assert main([*words, "-b", "127.0.0.1:1"]) == 3  # it gets as far as the broker
