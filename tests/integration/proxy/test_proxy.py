"""Faults of one member by the proxy, on a real broker: the others go on, and the verdict is true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from kafka_assignors.errors import ConfigError
from kafka_assignors.integration.broker import Broker, start_broker
from kafka_assignors.integration.broker.cluster import Cluster
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.commands.judged import judged
from kafka_assignors.integration.errors import HarnessError, NotSupported, PortTaken
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.proxy import Cut, FaultProxy, Reset
from kafka_assignors.integration.records import Sender
from kafka_assignors.integration.report.report import GroupResult
from kafka_assignors.integration.scenario import Step, scenario
from kafka_assignors.integration.scenario.runner import run_scenario
from tests.support.integration.fixtures import MakeTopic
from tests.support.integration.members import DEADLINE_S, gone
from tests.support.places import ROOT
from tests.support.programs import owner
from tests.support.waiting import until

pytestmark = pytest.mark.broker


def played(broker: Broker, folder: Path, assignor: str, resets: int) -> GroupResult:
    what = scenario("proxy-faults")
    faults = what.steps[-1]
    longer = Step(faults.name, (replace(faults.actions[0], times=resets),))  # type: ignore[type-var]
    what = replace(what, assignors=(assignor,), steps=(*what.steps[:-1], longer))
    return judged(run_scenario(what, broker, folder, "run", group=f"proxy-{folder.name}"))


def faults_of(folder: Path) -> list[tuple[str, str, str, int]]:
    """(kind, fault, target, hits) of every fault event of a proxy, in order."""
    events = History.load(folder).events
    return [(e.kind, e.data["fault"], e.data["target"], e.data.get("hits", 0)) for e in events if e.src == "proxy"]


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("assignor", "resets"),
    [
        # long: eight steps; the page's example below has a member cut off and reset, test_rules.py each rule
        pytest.param("cooperative-sticky", 10, marks=pytest.mark.long),
        pytest.param("cooperative-sticky", 30, marks=pytest.mark.long),
        pytest.param("sticky", 30, marks=pytest.mark.long),
        pytest.param("range", 10, marks=pytest.mark.long),
    ],
)
def test_one_member_is_hit_and_the_others_go_on(
    assignor: str, resets: int, kafka_broker: Broker, tmp_path: Path
) -> None:
    result = played(kafka_broker, tmp_path, assignor, resets)

    verdict = result.verdict
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
    assert verdict.measures["acked"] == verdict.checked["C3"] > 0
    assert min(verdict.checked[law] for law in ("O1", "O4", "A1", "C1", "T1")) > 0
    _, cut, back, dropped, _delayed, reset = result.steps
    assert sorted(cut.owned) == ["m2", "m3"]
    assert 1.4 <= cut.seconds <= 5.3, "a session of 2 s, less a heartbeat, and what law T1 allows to join again"
    assert sorted(back.owned) == ["m1", "m2", "m3"]
    assert sorted(dropped.owned) == sorted(reset.owned) == ["m1", "m2", "m3", "m4"]
    # Resets alone evict nobody: the same generation before and after, and nothing moved.
    assert (reset.generation, reset.moves) == (result.steps[-2].generation, 0)
    # What m1 had when it was cut off it lost, and learned so once it was back; nobody else lost anything.
    assert {i.end_kind for i in result.intervals if i.zombie_ms} == {"lost"}
    assert {i.member for i in result.intervals if i.end_kind == "lost"} == {"m1"}
    assert verdict.measures["zombie_ms"] < 10_000
    assert faults_of(tmp_path) == [
        ("fault_begin", "cut", "m1", 0), ("fault_end", "cut", "m1", 0),
        ("fault_begin", "drop", "m1", 0), ("fault_end", "drop", "m1", 1),
        ("fault_begin", "delay", "m1", 0), ("fault_end", "delay", "m1", 1),
        ("fault_begin", "reset", "m1", 0), ("fault_end", "reset", "m1", resets),
    ]  # fmt: skip


def peers_of(folder: Path, member: str) -> set[int]:
    """Ports that a member's process is connected to."""
    (pid,) = {e.pid for e in History.load(folder).events if e.src == "member" and e.member == member}
    return {c.raddr.port for c in psutil.Process(pid).net_connections("tcp") if c.raddr}


def test_all_connections_of_a_member_pass_the_proxy_also_to_leaders_and_coordinator(
    kafka_cluster: Cluster, kafka_cluster_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Three nodes, each a leader: one member behind the proxy, one beside it, which a fault of all doesn't touch."""
    topic = kafka_cluster_topic(placed=[[n] for n in (1, 2, 3)] * 2)
    advertised = {route.advertised for route in kafka_cluster.routes}
    direct = {int(node.bootstrap.rpartition(":")[2]) for node in kafka_cluster.nodes}
    with (
        FaultProxy(kafka_cluster.routes, tmp_path, "run") as proxy,
        MemberGroup(kafka_cluster.bootstrap, f"g-{topic}", tmp_path, "run") as group,
    ):
        group.start("m1", [topic], ["cooperative-sticky"], via=proxy)
        group.wait_stable()
        until(
            lambda: peers_of(tmp_path, "m1") == advertised,
            "m1, which has all partitions, is connected to each node",
            DEADLINE_S,
        )
        group.start("m2", [topic], ["cooperative-sticky"])
        group.wait_stable()
        assert set() < peers_of(tmp_path, "m2") <= direct
        assert peers_of(tmp_path, "m1") <= advertised

        with proxy.apply(Cut("*")), pytest.raises(ConfigError, match=r"'m1' .* is cut off; heal the fault or kill it"):
            group.stop("m1")
        assert faults_of(tmp_path) == [("fault_begin", "cut", "m1", 0), ("fault_end", "cut", "m1", 0)]
        group.wait_stable()


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("client", "assignor"),
    [("java", "cooperative-sticky"), ("confluent", "cooperative-sticky"), ("aiokafka", "sticky")],
)
def test_members_of_other_clients_are_hit_too(
    client: str, assignor: str, kafka_broker: Broker, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """Cut off beyond its session, back, then reset time after time: nothing is lost or owned twice."""
    topic = kafka_topic(partitions=6)
    with (
        FaultProxy(kafka_broker.routes, tmp_path, "run") as proxy,
        MemberGroup(kafka_broker.bootstrap, f"g-{topic}", tmp_path, "run", session_timeout_ms=6000) as group,
        Sender(kafka_broker.bootstrap, tmp_path, "run", [topic], "default", 50),
    ):
        group.start("x1", [topic], [assignor], client=client, via=proxy)
        group.start("m1", [topic], [assignor], via=proxy)
        group.wait_stable(timeout_s=60)
        with proxy.apply(Cut("x1")):
            assert sorted(group.wait_stable(timeout_s=60).owned) == ["m1"]
        assert sorted(group.wait_stable(timeout_s=60).owned) == ["m1", "x1"]
        proxy.apply(Reset("x1", times=5, every_ms=1000)).wait()
        group.wait_stable(timeout_s=60)
        group.drain(60)

    verdict = check(History.load(tmp_path))
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
    assert min(verdict.checked[law] for law in ("O1", "C1", "C3", "T1")) > 0
    # librdkafka counts its session itself, and may give up what it has before the coordinator does.
    assert {i.member for i in verdict.intervals if i.zombie_ms} <= {"x1"}


def test_the_example_of_the_page(kafka_broker: Broker, kafka_topic: MakeTopic, tmp_path: Path) -> None:
    page = ROOT.joinpath("docs", "scenarios.md").read_text("utf-8")
    _, _, below = page.partition("## Faults of one member's network")
    example = below.split("```python\n")[1].split("```")[0]
    given = {"broker": kafka_broker, "folder": tmp_path, "run_id": "run", "MemberGroup": MemberGroup}

    exec(example.replace('"orders"', repr(kafka_topic(partitions=4))), given)

    assert check(History.load(tmp_path)).value is True
    assert [fault for kind, fault, *_ in faults_of(tmp_path) if kind == "fault_end"] == ["cut", "reset"]


def test_what_cannot_be(kafka_broker: Broker, tmp_path: Path) -> None:
    proxy = FaultProxy(kafka_broker.routes, tmp_path, "run")
    with pytest.raises(PortTaken, match="one proxy at a time stands in front of a broker"):
        FaultProxy(kafka_broker.routes, tmp_path, "run")
    with (
        start_broker("external", bootstrap=kafka_broker.bootstrap) as external,
        pytest.raises(NotSupported, match=r"external broker at .* has no listener for a fault proxy"),
    ):
        FaultProxy(external.routes, tmp_path, "run")
    proxy.admit("m1", "one", 0)
    with pytest.raises(ConfigError, match="'m1' of group 'two' has the name of one of group 'one'"):
        proxy.admit("m1", "two", 0)
    proxy.close()
    with pytest.raises(HarnessError, match=r"the fault proxy at .* has ended"):
        proxy.apply(Cut("m1"))
    FaultProxy(kafka_broker.routes, tmp_path, "run").close()
    assert {path.name for path in tmp_path.glob("proxy-*.jsonl")} >= {"proxy-0.jsonl", "proxy-1.jsonl"}


def test_no_proxy_outlives_its_harness(kafka_broker: Broker, tmp_path: Path) -> None:
    program = f"""
        import signal
        from pathlib import Path
        from kafka_assignors.integration.broker.settings import Route
        from kafka_assignors.integration.proxy import FaultProxy
        proxy = FaultProxy([Route(*{tuple(kafka_broker.routes[0])})], Path({str(tmp_path)!r}), "run")
        print(proxy._process.pid, flush=True)
        signal.pause()
    """
    with owner(program) as (_, words):
        pid = int(words[0])
        assert not gone(pid)

    until(lambda: gone(pid), "the proxy of a dead harness ends", DEADLINE_S)
