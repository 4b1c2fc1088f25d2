"""When a group grows and when it shrinks, look after look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from kafka_assignors.operator.scaling import Proposal, Rules, Scaler, SizeDelay

RULES = Rules(delay_s=30)
PARTITIONS = 12


def sizes(load: float, now: int, lag_s: float = 0.0) -> list[SizeDelay]:
    """Twelve partitions with equal rates: all together take `load` members, and what waits `lag_s` seconds of one."""

    def size(members: int) -> SizeDelay:
        counts = [PARTITIONS // members + (n < PARTITIONS % members) for n in range(members)]
        return SizeDelay(
            members, max(counts), tuple(load * count / PARTITIONS for count in counts),
            tuple(lag_s * count / PARTITIONS for count in counts),
        )  # fmt: skip

    return [size(members) for members in sorted({1, 2, 3, 4, 6, 12, now})]


def played(scaler: Scaler, loads: Iterable[float], members: int, begin_s: float = 0.0) -> list[Proposal]:
    """The answers to loads, a look each 15 s; the group follows each answer."""
    answers = []
    for n, load in enumerate(loads):
        answers.append(scaler.decide(begin_s + 15 * n, members, sizes(load, members)))
        members = answers[-1].members
    return answers


def changes(answers: Sequence[Proposal]) -> list[int]:
    return [answer.members for answer in answers if answer.members != answer.now]


def test_a_group_that_keeps_the_delay_stays() -> None:
    answers = played(Scaler(RULES), [2.9] * 100, 4)

    assert changes(answers) == []
    assert answers[-1].kept is True
    assert "fewer than 4" in answers[-1].why


def test_a_group_that_does_not_grows_to_the_fewest_with_spare() -> None:
    answers = played(Scaler(RULES), [4.8] * 20, 4)

    # 4 members: 1.2 of a member's time each. 6: 0.8, and 0.96 with spare; the steps between have as large a share as 4
    assert changes(answers) == [6]
    assert answers[3].why == "the group has 4 for less than 60 s"
    first = next(answer for answer in answers if answer.members == 6)
    assert (first.now, first.kept) == (4, True)
    assert "wait up to 60 s with 4, and up to 0 s with 6" in first.why


def test_a_load_that_is_too_high_for_a_while_is_not_worth_a_rebalance() -> None:
    """At 1.05 of the pace the lag grows by 15 s within the horizon."""
    assert changes(played(Scaler(RULES), [4.2] * 20, 4)) == []
    scaler = Scaler(RULES)
    scaler.decide(0, 4, sizes(4.2, 4))
    behind = scaler.decide(90, 4, sizes(4.2, 4, lag_s=80))
    assert (behind.members, behind.kept) == (6, True)


def test_a_group_shrinks_after_a_rest_and_only_as_far_as_held_all_the_time() -> None:
    loads = [2.9] * 10 + [0.5] * 80

    answers = played(Scaler(RULES), loads, 4)

    assert changes(answers) == [1]
    when = next(n for n, answer in enumerate(answers) if answer.members == 1)
    assert 15 * (when - 10) >= RULES.rest_s
    assert "for less than 600 s" in answers[when - 5].why


def test_a_group_that_has_just_grown_does_not_shrink() -> None:
    answers = played(Scaler(RULES), [4.8] * 10 + [0.5] * 30, 4)

    assert changes(answers) == [6]
    assert "would do; the group shrinks after 600 s" in answers[-1].why or "for less than" in answers[-1].why


def test_a_group_does_not_shrink_while_its_load_rises() -> None:
    rising = [0.3 + 0.004 * n for n in range(100)]

    answers = played(Scaler(RULES), rising, 4)

    assert changes(answers) == []
    assert any(answer.why.endswith("and the load rises") for answer in answers)


def test_the_spare_doubles_with_each_growth() -> None:
    """A load that goes on rising costs few rebalances: 2, 3, 6, 12 would be four."""
    rising = [1.5 + 0.1 * n for n in range(80)]

    grown = changes(played(Scaler(RULES), rising, 2))

    assert grown == sorted(grown)
    assert len(grown) < 4
    assert grown[-1] == 12


def test_no_answer_moves_partitions_for_nothing() -> None:
    """Five of twelve: someone has as many partitions as with four."""
    answers = played(Scaler(RULES), [2.9] * 100, 5)

    assert changes(answers) == [4]
    for load in (0.1, 1.4, 3.3, 5.2, 9.0, 40.0):
        for begin in range(1, 13):
            assert set(changes(played(Scaler(RULES), [load] * 60, begin))) <= {1, 2, 3, 4, 6, 12}


def test_where_no_size_keeps_the_delay_the_best_is_worth_it_or_nothing_is() -> None:
    best = played(Scaler(RULES), [30.0] * 10, 6)
    assert changes(best) == [12]
    assert best[-1].kept is False
    assert "more members don't help" in best[-1].why

    hot = [SizeDelay(n, 12 // n, (2.0, *[0.1] * (n - 1)), (0.0,) * n) for n in (1, 2, 3, 4, 6, 12)]
    stays = Scaler(RULES, at_once=True).decide(0, 2, hot)
    assert (stays.members, stays.kept) == (2, False)


def test_an_unmeasured_pace_never_grows_a_group() -> None:
    """The delays are then upper bounds: no member was busy."""
    answer = Scaler(RULES, at_once=True).decide(0, 4, sizes(9.0, 4), measured=False)
    assert (answer.members, answer.kept) == (4, None)
    answer = Scaler(RULES, at_once=True).decide(0, 4, sizes(0.6, 4), measured=False)
    assert (answer.members, answer.kept) == (1, True)


@pytest.mark.parametrize(
    ("rules", "now", "wanted"),
    [
        (Rules(30, least=3), 4, 3),
        (Rules(30, least=3), 2, 3),
        (Rules(30, most=2), 4, 2),
        (Rules(30, least=5, most=5), 5, 5),
    ],
)
def test_the_bounds_hold(rules: Rules, now: int, wanted: int) -> None:
    assert Scaler(rules, at_once=True).decide(0, now, sizes(0.5, now)).members == wanted


def test_a_member_that_is_away_for_a_moment_changes_nothing() -> None:
    """A roll: of 2 members, one after another is away for half a minute, and comes back."""
    scaler = Scaler(RULES)
    there = [2 - (n // 2) % 2 for n in range(4, 80)]
    answers = [scaler.decide(15 * n, members, sizes(1.5, members)) for n, members in enumerate(there)]

    assert {answer.now for answer in answers} == {1, 2}
    assert {answer.members for answer in answers} == {2}
    grown = changes(played(scaler, [2.4] * 20, 2, begin_s=1200))
    assert grown == [3], "and it is no growth, which would double the spare"


def test_at_once_needs_no_rest() -> None:
    assert Scaler(RULES, at_once=True).decide(0, 4, sizes(0.5, 4)).members == 1
    assert Scaler(RULES).decide(0, 4, sizes(0.5, 4)).members == 4
