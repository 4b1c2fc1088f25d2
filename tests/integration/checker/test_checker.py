"""The checker accepts lawful histories and rejects damaged ones, by the law that the damage breaks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_assignors.integration.checker import Verdict, check
from kafka_assignors.integration.history import History
from tests.support.damage.churn import COOPERATIVE_DAMAGE, DAMAGED, Damage, set_, swap
from tests.support.examples import examples
from tests.support.histories.story import Story, churn, given_up
from tests.support.work import lines

PROTOCOLS = ("range", "roundrobin", "sticky", "cooperative-sticky")
NOT_JUDGED = {
    "range": {"R2", "R3", "R4", "C6", "X1", "X2", "X3", "S1", "S2", "T2", "T3"},
    "roundrobin": {"R2", "R3", "R4", "C6", "X1", "X2", "X3", "S1", "S2", "T2", "T3"},
    "sticky": {"R2", "R3", "C6", "X1", "X2", "X3", "S1", "S2", "T2", "T3"},
    "cooperative-sticky": {"C6", "X1", "X2", "X3", "S1", "S2", "T2", "T3"},
}
"""What a run without static members or stalls can't tell: hand-overs are a cooperative affair, few moves sticky's."""


def laws_broken(verdict: Verdict) -> set[str]:
    return {violation.law for violation in verdict.violations}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_lawful_run_is_true_and_every_law_was_judged(protocol: str) -> None:
    verdict = check(churn(protocol).history)

    assert verdict.violations == ()
    assert verdict.unknown == ()
    assert verdict.value is True
    assert {law for law, times in verdict.checked.items() if not times} == NOT_JUDGED[protocol]


@pytest.mark.slow
@given(
    protocol=st.sampled_from(PROTOCOLS),
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    turns=st.lists(st.tuples(st.sampled_from(["join", "stop", "kill"]), st.integers(0, 9)), max_size=6),
)
@settings(max_examples=examples(60), deadline=None)
def test_any_lawful_run_is_true(protocol: str, counts: list[int], turns: list[tuple[str, int]]) -> None:
    """Whatever members come, go and die, a run by the rules has no false alarm."""
    story = Story(protocol, {f"t{i}": n for i, n in enumerate(counts)}).start("m0", "m1").round().records(7)
    for number, (turn, which) in enumerate(turns):
        names = sorted(story.held)
        if turn == "join" or len(names) == 1:
            story.start(f"m{number + 2}")
        elif turn == "stop":
            story.stop(names[which % len(names)])
        else:
            story.kill(names[which % len(names)])
        story.round().records(3).consume(commit=which % 2 == 0)

    verdict = check(story.drain().read_back().history)

    assert (verdict.value, verdict.violations, verdict.unknown) == (True, (), ())


@pytest.mark.parametrize("protocol", ["range", "roundrobin", "sticky"])
@pytest.mark.parametrize(("law", "damage"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_run_is_false_by_the_law_it_breaks(law: str, damage: Damage, protocol: str) -> None:
    story = churn(protocol)
    whole = list(story.events)
    try:
        damage(story)
    except AssertionError:
        pytest.fail("the damage found nothing to damage")
    if story.events == whole:
        pytest.fail("the damage changed nothing")

    verdict = check(story.history)

    assert verdict.value is False
    assert law in laws_broken(verdict), [f"{v.law}: {v.message}" for v in verdict.violations]
    for violation in verdict.violations:
        assert violation.witnesses
        assert violation.message


@pytest.mark.parametrize(("law", "damage"), COOPERATIVE_DAMAGE.values(), ids=COOPERATIVE_DAMAGE)
def test_a_damaged_cooperative_run_is_false(law: str, damage: Damage) -> None:
    verdict = check(damage(churn("cooperative-sticky")).history)

    assert verdict.value is False
    assert law in laws_broken(verdict)


def test_the_witness_names_who_owned_what_and_how_long() -> None:
    """Two members, one partition, 299 ms of both: the sentence says so and the events prove it."""
    story = Story("range", {"t": 1}).start("b").round()
    story.start("a").round()
    story.shift("revoke_end", 299, member="b")

    verdict = check(story.history)

    overlap = next(v for v in verdict.violations if v.law == "O1")
    assert overlap.message == "t-0 was owned by b and a for 294.0 ms"
    assert [(w.kind, w.member) for w in overlap.witnesses] == [
        ("assigned_begin", "b"),
        ("assigned_begin", "a"),
        ("revoke_end", "b"),
    ]


UNKNOWN: dict[str, tuple[str, Damage]] = {
    "no coordinator log": ("no generation from the coordinator log", lambda s: only(s, "generation_committed")),
    "one generation is missing": ("G2", lambda s: s.drop("generation_committed", nth=0)),
    "the leader's view is missing": ("A1", lambda s: s.drop("assign_begin", nth=0).drop("assign_end", nth=0)),
    "the stable generation wasn't committed": ("O3", lambda s: s.change("step", set_(generation=77), name="stable")),
    "partition counts are missing": ("O3", lambda s: every(s, "step", "stable", "topics")),
}


def only(story: Story, kind: str) -> Story:
    story.events = [e for e in story.events if e.kind != kind]
    return story


def every(story: Story, kind: str, name: str, field: str) -> Story:
    story.events = [
        replace(e, data={k: v for k, v in e.data.items() if k != field})
        if e.kind == kind and e.data["name"] == name
        else e
        for e in story.events
    ]
    return story


@pytest.mark.parametrize(("reason", "damage"), UNKNOWN.values(), ids=UNKNOWN)
def test_missing_events_make_the_verdict_unknown(reason: str, damage: Damage) -> None:
    verdict = check(damage(churn()).history)

    assert verdict.value is None
    assert any(reason in said for said in verdict.unknown), verdict.unknown


def test_gaps_make_the_verdict_unknown_even_if_a_law_seems_broken() -> None:
    """The missing line may be the very revoke that the law asks for."""
    story = churn().drop("revoke_end", member="a", nth=1)

    verdict = check(History(story.events, problems=["m.jsonl:3: seq 4 where 3 was due"]))

    assert verdict.violations
    assert verdict.value is None
    assert "m.jsonl:3" in verdict.unknown[0]


def test_an_empty_history_proves_nothing() -> None:
    assert check(History([])).value is None


def test_a_group_that_never_drained_is_not_judged_by_loss() -> None:
    story = churn()
    story.events = [e for e in story.events if e.data.get("name") != "drained"]

    verdict = check(story.history)

    assert verdict.value is True
    assert verdict.checked["C3"] == 0


def test_a_leader_of_another_make_is_not_replayed() -> None:
    story = churn()
    for member in "abcd":
        story.change("start", set_(config={"assignors": ["kafka-python:range"]}), member=member)
    story.change("generation_committed", swap)

    verdict = check(story.history)

    assert verdict.checked["A1"] == 0
    assert "A1" not in laws_broken(verdict)


def test_measures_tell_moves_downtime_and_time_to_stable() -> None:
    """t-0 goes from b to a: revoked, committed, adopted and assigned, in 1 ms steps."""
    story = Story("range", {"t": 1})
    story.tell("step", name="b joins")
    story.start("b").round()
    story.tell("step", name="a joins")
    story.start("a").round()

    measures = check(story.history).measures

    assert [(s["name"], s["generation"], s["moves"]) for s in measures["steps"]] == [
        ("b joins", 1, 0),
        ("a joins", 2, 1),
    ]
    assert measures["downtime_ms"] == {"g/t-0": 5.0}
    assert measures["longest_gap_ms"] == 5.0
    assert measures["overlap_ms"] == {}
    assert measures["generations"] == [
        {"group": "g", "generation": 1, "protocol": "range", "members": 1},
        {"group": "g", "generation": 2, "protocol": "range", "members": 2},
    ]
    assert [(each["generations"], each["moved"]) for each in measures["rebalances"]] == [((1,), 0), ((2,), 1)]
    assert (measures["assign_us"], measures["acked"], measures["nacked"]) == (100, 0, 0)
    last_adoption = max(e.mono_ns for e in story.events if e.kind == "assigned_end")
    step = next(e.mono_ns for e in story.events if e.data.get("name") == "a joins")
    assert measures["steps"][1]["ms"] == (last_adoption - step) / 1e6


@pytest.mark.slow
def test_four_times_the_events_take_little_more_than_four_times_the_work() -> None:
    """Counted in lines that run; what that is in seconds is for the benchmarks to say."""
    work = {}
    for joins in (5, 20):
        story = Story("cooperative-sticky", {"t": 60, "u": 40}).start("a", "b", "c").round()
        for number in range(joins):
            story.start(f"x{number}").round().records(350)
            story.stop(f"x{number}").round()
        history = story.drain().read_back().history
        verdicts: list[Verdict] = []
        work[joins] = lines(lambda history=history, verdicts=verdicts: verdicts.append(check(history)))
        assert verdicts[0].value is True

    assert work[20] <= 5 * work[5]


@pytest.mark.parametrize("kind", ["not_stable", "not_drained", "not_over"])
def test_what_the_harness_gave_up_on_is_never_true(kind: str) -> None:
    story = given_up()
    story.events = [e for e in story.events if e.kind == kind or not e.kind.startswith("not_")]

    verdict = check(story.history)

    assert (verdict.value, verdict.violations) == (None, ())
    assert len(verdict.unknown) == 1


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (["commit_fail"], "; the last commit of a for t-0 was refused: TooLarge: 5,000 bytes"),
        (["commit_ok", "commit_fail"], "; the last commit of a for t-0 was refused: TooLarge: 5,000 bytes"),
        (["commit_fail", "elsewhere"], "; the last commit of a for t-0 was refused: TooLarge: 5,000 bytes"),
        (["elsewhere fails"], ""),
        (["commit_fail", "commit_ok"], ""),
        (["commit_fail", "stop"], ""),
        ([], ""),
    ],
)
def test_records_that_are_left_are_told_with_the_commit_that_was_refused(told: list[str], words: str) -> None:
    """A service may swallow the error and read on: nothing else tells why its group stays behind."""
    story = Story("range").start("a", "b").round().records(7)
    place = {"topic": "t", "partition": 0, "offset": 3}
    for kind in told:
        more = {"error": "TooLarge: 5,000 bytes"} if kind in ("commit_fail", "elsewhere fails") else {}
        elsewhere = {**place, "partition": 1}
        fields = {"stop": {}, "elsewhere": {"offsets": [elsewhere]}, "elsewhere fails": {"offsets": [elsewhere]}}
        name = {"elsewhere": "commit_ok", "elsewhere fails": "commit_fail"}.get(kind, kind)
        story.tell(name, "member", "a", **fields.get(kind, {"offsets": [place]}), **more)
    story.tell("not_drained", waited_s=40, left=[{**place, "end": 5}])
    story.tell("commit_fail", "member", "b", offsets=[place], error="later")

    (reason,) = (reason for reason in check(story.history).unknown if "left" in reason)
    assert reason == f"group 'g' had 2 records left after 40 s, in t-0{words}"


def test_what_the_harness_waited_for_is_told() -> None:
    assert check(given_up().history).unknown == (
        "group 'g' was not stable after 40 s; due: nobody owns t[0]",
        "group 'g' had 2 records left after 40 s, in t-0",
        "the harness waited 15.5 s without success: member 'a' stands still",
    )
