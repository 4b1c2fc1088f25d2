"""What a step cost, told of histories whose every millisecond is known."""

from __future__ import annotations

from kafka_assignors.integration.checker import check
from kafka_assignors.integration.checker.ledger import RunRecord
from kafka_assignors.integration.checker.rebalance_costs import Cost, costs, rebalances_of
from tests.support.histories.story import Story


def cost(story: Story, name: str) -> Cost:
    (record,) = RunRecord.of(story.history).groups.values()
    return next(each for each in costs(record, rebalances_of(record)) if each.name == name)


def gaps(story: Story) -> list[float]:
    return [i.gap_before_ms for i in check(story.history).intervals if i.gap_before_ms]


def joins(protocol: str) -> Story:
    """b has four partitions, then a comes for two of them; events are 1 ms apart."""
    story = Story(protocol, {"t": 4})
    story.tell("step", name="b joins")
    story.start("b").round().records(8).consume(commit=False)
    story.tell("step", name="a joins")
    return story.start("a").round()


def test_an_eager_join_stops_everything_and_gives_half_of_it_back() -> None:
    story = joins("range")

    found = cost(story, "a joins")

    assert (found.generations, found.rebalances, found.moves, found.returned) == (1, 1, 2, 2)
    assert len(gaps(story)) == 4
    assert (found.stop_ms, found.downtime_ms) == (max(gaps(story)), sum(gaps(story)))


def test_a_cooperative_join_stops_what_moves_and_takes_two_generations() -> None:
    story = joins("cooperative-sticky")

    found = cost(story, "a joins")

    assert (found.generations, found.rebalances, found.moves, found.returned) == (2, 1, 2, 0)
    assert len(gaps(story)) == 2
    assert (found.stop_ms, found.downtime_ms) == (max(gaps(story)), sum(gaps(story)))


def test_what_was_not_committed_is_read_again_and_counts_to_the_step_that_moved_it() -> None:
    """Eager: all four partitions begin anew where nothing was committed. What follows is new."""
    story = joins("range").consume().records(4).consume()
    story.tell("step", name="a leaves")
    story.stop("a").round().consume()

    assert cost(story, "b joins").duplicates == 0
    assert cost(story, "a joins").duplicates == 8
    assert cost(story, "a leaves").duplicates == 0


def test_a_static_restart_costs_its_own_partitions_alone() -> None:
    story = Story("range", {"t": 4})
    story.tell("step", name="both join")
    story.start("a", "b", static=True).round()
    story.tell("step", name="b restarts")
    story.restart("b", after_ms=100)
    rest = {"generation": story.generation, "topics": story.topics, "adopted_ns": story.adopted_ns}
    story.tell("step", name="stable", **rest)

    found = cost(story, "b restarts")

    assert (found.generations, found.rebalances, found.moves, found.returned) == (0, 0, 0, 0)
    assert 100 <= found.stop_ms < 110
    assert found.downtime_ms == 2 * found.stop_ms
    assert found.asked


def test_a_member_that_gives_up_what_it_closes_with_is_no_needless_revoke() -> None:
    story = joins("range")
    story.tell("step", name="a leaves")
    story.stop("a").round()

    assert cost(story, "a leaves").returned == 2  # b's own two; a's went to b


def test_who_came_or_went_unasked_is_told() -> None:
    """b misses its session while a joins, and comes back."""
    story = Story("range", {"t": 4})
    story.tell("step", name="b and c join")
    story.start("b", "c").round()
    story.tell("step", name="a joins")
    story.start("a")
    missed = story.held.pop("b")
    story.round(stable=False)
    story.held["b"] = missed
    story.round()

    assert not cost(story, "a joins").asked
    assert cost(joins("range"), "a joins").asked


def test_a_generation_that_a_static_restart_writes_again_is_no_round_of_the_change_before() -> None:
    story = Story("range", {"t": 4})
    story.tell("step", name="a joins")
    story.start("a", static=True).round()
    story.tell("step", name="b joins")
    story.start("b").round().restart("a")

    assert cost(story, "b joins").generations == 1
    verdict = check(story.history)
    assert (verdict.violations, verdict.checked["R5"]) == ((), 1)


def test_what_happens_in_a_step_that_never_rests_counts_to_no_other() -> None:
    story = joins("range")
    before = cost(story, "a joins")
    story.tell("step", name="a leaves")
    story.stop("a").round(stable=False)

    assert len(gaps(story)) > 4
    assert cost(story, "a joins") == before
