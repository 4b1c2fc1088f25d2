"""Scenarios with faults, static members and a change of assignor, played by real members on a real broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from kafka_assignors.errors import ConfigError
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.commands.judged import judged
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.proxy.rules import Cut, Delay, Reset
from kafka_assignors.integration.report.report import GroupResult
from kafka_assignors.integration.scenario import Step, scenario
from kafka_assignors.integration.scenario.catalogue import Heal, Join, Kill, Leave, Pause, Resume
from kafka_assignors.integration.scenario.prefix import prefixed
from kafka_assignors.integration.scenario.runner import run_scenario
from tests.support.integration.members import DEADLINE_S, GONE_S, gone
from tests.support.integration.records import read_twice
from tests.support.programs import owner
from tests.support.waiting import until

broker = pytest.mark.broker
# long: the eager one plays the same scenarios; test_lives.py and test_mixed.py have it
BOTH = [pytest.param("sticky", marks=pytest.mark.long), "cooperative-sticky"]


def stands_still(process: psutil.Process) -> None:
    until(lambda: process.status() == psutil.STATUS_STOPPED, "the member stands still", DEADLINE_S)


def played(name: str, kafka_broker: Broker, folder: Path, *assignors: str) -> GroupResult:
    what = scenario(name)
    what = replace(what, assignors=assignors or what.assignors)
    result = judged(run_scenario(what, kafka_broker, folder, "run", group=f"{name}-{folder.name}"))
    verdict = result.verdict
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
    return result


@broker
@pytest.mark.parametrize("assignor", BOTH)
def test_a_paused_member_is_evicted_in_time_and_notices_when_it_goes_on(
    assignor: str, kafka_broker: Broker, tmp_path: Path
) -> None:
    result = played("pause", kafka_broker, tmp_path, assignor)

    joined, without, again = result.steps
    assert sorted(joined.owned) == sorted(again.owned) == ["m1", "m2", "m3"]
    assert sorted(without.owned) == ["m1", "m3"]
    assert result.verdict.checked["T1"] == 1
    # Its session of 2 s ended while it stood still, so for some time it owned what others had got.
    assert result.verdict.measures["zombie_ms"] > 1500
    assert {i.end_kind for i in result.intervals if i.zombie_ms} == {"lost"}
    assert {i.member for i in result.intervals if i.zombie_ms} == {"m2"}


@broker
@pytest.mark.parametrize("assignor", BOTH)
def test_nobody_notices_that_a_static_member_restarts(assignor: str, kafka_broker: Broker, tmp_path: Path) -> None:
    result = played("static", kafka_broker, tmp_path, assignor)

    before, after = result.steps
    assert result.verdict.checked["S1"] == 1
    assert after.generation == before.generation
    assert after.owned == before.owned


@pytest.mark.long  # long: the two bounces of the next test are rolls from one assignor to another, too
@broker
def test_a_group_rolls_from_one_assignor_to_another(kafka_broker: Broker, tmp_path: Path) -> None:
    """The elected name switches with the last member that learns the new one, and never back."""
    result = played("rolling-assignors", kafka_broker, tmp_path)

    assert [step.protocol for step in result.steps] == ["range"] * 3 + ["sticky"] * 4


@broker
@pytest.mark.source("KIP-429, from the eager rebalance protocol to the cooperative one")
# long: the same bounces without a member of Java's
@pytest.mark.parametrize("name", [pytest.param("rolling-cooperative", marks=pytest.mark.long), "rolling-from-java"])
def test_a_group_goes_from_eager_to_cooperative_in_two_bounces(name: str, kafka_broker: Broker, tmp_path: Path) -> None:
    """No record is lost, none is read twice but where a partition moved, and no partition ever has two owners."""
    result = played(name, kafka_broker, tmp_path)

    assert [step.protocol for step in result.steps] == ["range"] * 3 + ["cooperative-sticky"] * 4
    verdict = result.verdict
    assert min(verdict.checked[law] for law in ("O1", "R2", "R6", "A1", "C3")) > 0
    assert verdict.measures["overlap_ms"] == {}
    assert verdict.measures["acked"] == verdict.checked["C3"]
    moved = {(i.topic, i.partition) for i in result.intervals if i.moved}
    assert read_twice(History.load(tmp_path)) <= moved
    # In the second bounce members keep what they have while others come and go: no interval of theirs ends.
    last = [i for i in result.intervals if i.member == "m1" and i.end_ns > result.steps[-1].mono_ns]
    assert min(i.start_ns for i in last) < result.steps[-2].mono_ns


@broker
# long: the other example of the same KIP
@pytest.mark.parametrize("name", ["election", "kip-54-1", pytest.param("kip-54-2", marks=pytest.mark.long)])
def test_a_worked_example_is_true(name: str, kafka_broker: Broker, tmp_path: Path) -> None:
    """Those of the full demo, each alone."""
    what = prefixed(scenario(name), f"{tmp_path.name}-")

    verdict = judged(run_scenario(what, kafka_broker, tmp_path, "run", group=f"{name}-{tmp_path.name}")).verdict

    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)


@broker
def test_pausing_and_resuming_what_cannot_be(
    unjudged_group: Callable[..., MemberGroup], kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    group = unjudged_group()
    group.start("m1", [kafka_topic()], ["range"])
    group.wait_stable()
    with pytest.raises(ConfigError, match=r"'m1' .* is not paused"):
        group.resume("m1")
    group.pause("m1")
    with pytest.raises(ConfigError, match=r"'m1' .* is already paused"):
        group.pause("m1")
    with pytest.raises(ConfigError, match=r"'m1' .* is paused; resume or kill it"):
        group.stop("m1")
    with pytest.raises(ConfigError, match="no member 'm9'"):
        group.pause("m9")
    (pid,) = {e.pid for e in History.load(tmp_path).events if e.src == "member"}
    stands_still(psutil.Process(pid))

    group.close()

    assert not psutil.pid_exists(pid)
    faults = [e for e in History.load(tmp_path).events if e.kind == "fault_begin"]
    assert [(e.data["fault"], e.member) for e in faults] == [("pause", "m1")]


@broker
def test_no_paused_member_outlives_its_harness(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    """The harness gets SIGKILL while a member stands still, which can't notice by itself."""
    program = f"""
        import signal
        from pathlib import Path
        from kafka_assignors.integration.members.group import MemberGroup
        with MemberGroup({kafka_broker.bootstrap!r}, "paused-orphan", Path({str(tmp_path)!r}), "run") as group:
            group.start("m1", [{kafka_topic()!r}], ["range"])
            group.wait_stable()
            group.pause("m1")
            print("paused", flush=True)
            signal.pause()
    """
    with owner(program) as (_, words):
        assert words == ["paused"]
        (pid,) = {e.pid for e in History.load(tmp_path).events if e.src == "member"}
        stands_still(psutil.Process(pid))

    until(lambda: gone(pid), "the paused member of a dead harness ends", GONE_S)


def test_who_is_in_the_group_after_a_step() -> None:
    before = frozenset({"a", "b"})

    assert Step("", (Kill("a"), Join("a"))).members_after(before) == {"a", "b"}
    assert Step("", (Pause("a"),)).members_after(before) == {"b"}
    assert Step("", (Resume("c"), Join("d"))).members_after(before) == {"a", "b", "c", "d"}
    assert Step("", (Cut("a"), Heal("c"))).members_after(before) == {"b", "c"}
    assert Step("", (Cut("a", for_ms=500), Delay("a", 10), Reset("b"))).members_after(before) == before


@pytest.mark.long  # long: a race of our own steps; members/test_member.py has what a member does that is stopped
@broker
def test_members_may_join_and_leave_within_one_step(kafka_broker: Broker, tmp_path: Path) -> None:
    """A process that has just been started leaves when it has begun; SIGTERM before that would kill it."""
    clients = {"m2": "kafka-python", "a1": "aiokafka", "c1": "confluent"}
    brief = [action for name in clients for action in (Join(name, client=clients[name]), Leave(name))]
    steps = (Step("one joins", (Join("m1"),)), Step("others come and go", tuple(brief)))
    what = replace(scenario("churn"), steps=steps, topics={"brief": 4}, assignors=("range",))

    ran = run_scenario(what, kafka_broker, tmp_path, "run", group=f"brief-{tmp_path.name}")

    assert not ran.gave_up
    verdict = judged(ran).verdict
    assert (verdict.violations, verdict.value) == ((), True)
    ends = [e for e in History.load(tmp_path).events if e.kind == "exit"]
    assert [(e.member, e.data["code"]) for e in ends] == [("m2", 0), ("a1", 0), ("c1", 0), ("m1", 0)]
