"""Causes, moves and bounds of rebalances, from logs built by hand: what is told, and what is never claimed."""

from __future__ import annotations

from kafka_assignors.live.rebalances import Rebalance, advice, rebalances
from tests.support.live.log import LogStory


def told(story: LogStory) -> list[list[tuple[str, str]]]:
    return [[(cause.kind, cause.who) for cause in each.causes] for each in rebalances(story.log)]


def last(story: LogStory) -> Rebalance:
    return rebalances(story.log)[-1]


def three() -> LogStory:
    return LogStory().given({"a": [0, 1], "b": [2, 3], "c": [4, 5]}).wait(60)


def test_the_first_generation_is_told_as_the_first() -> None:
    assert told(three()) == [[("first", "")]]


def test_a_member_that_joins_is_named_with_its_host() -> None:
    found = last(three().given({"a": [0], "b": [2, 3], "c": [4, 5], "d": [1]}))
    assert [(c.kind, c.who, c.host) for c in found.causes] == [("joined", "d", "10.0.0.4")]
    assert (found.moved, found.living, found.least, found.needless) == (1, 1, 1, 0)


def test_moves_beyond_the_least_are_needless() -> None:
    """Range renumbers: d needs one partition, and three move."""
    found = last(three().given({"a": [0, 1], "b": [2], "c": [3, 4], "d": [5]}))
    assert (found.moved, found.living, found.least, found.needless) == (2, 2, 1, 1)
    assert any("needlessly" in line for line in advice([found]))


def test_moves_that_may_serve_another_end_are_not_called_needless() -> None:
    """Racks, and an assignor that nobody here knows."""
    racks = three().given({"a": [0, 1], "b": [2], "c": [3, 4], "d": [5]}, rack="r1")
    assert (last(racks).living, last(racks).least, last(racks).needless) == (2, None, None)
    story = LogStory("by-work").given({"a": [0, 1, 2], "b": [3]}).wait(9).given({"a": [0], "b": [1, 2, 3]})
    assert (last(story).living, last(story).needless) == (2, None)
    assert not any("needless" in line for line in advice(rebalances(story.log)))


def test_a_member_seen_within_its_timeout_has_left() -> None:
    """It committed a second ago: no timeout can have run out."""
    story = three().commit(2).wait(1).given({"a": [0, 1, 2], "c": [4, 5, 3]})
    assert told(story)[-1] == [("left", "b")]


def test_a_silent_member_has_left_or_expired() -> None:
    assert told(three().given({"a": [0, 1, 2], "c": [4, 5, 3]}))[-1] == [("left or expired", "b")]


def test_moves_of_the_gone_are_never_needless() -> None:
    found = last(three().given({"a": [0, 1, 2], "c": [4, 5, 3]}))
    assert (found.moved, found.living, found.needless) == (2, 0, 0)


def test_a_client_that_comes_back_on_its_host_has_restarted() -> None:
    """b's host is the second member's."""
    story = three().given({"a": [0, 1], "b": [2, 3], "c": [4, 5]}, ids={"b": "b-1"})
    assert told(story)[-1] == [("restarted", "b")]
    assert any("group.instance.id" in line for line in advice(rebalances(story.log)))


def test_a_static_member_that_comes_back_is_no_restart() -> None:
    story = LogStory().given({"a": [0], "b": [1]}, static=["b"]).wait(1)
    story.generation -= 1  # the coordinator writes the same generation again
    story.given({"a": [0], "b": [1]}, static=["b"], ids={"b": "b-1"})
    assert told(story)[-1] == [("returned", "b")]
    assert (last(story).moved, last(story).missing) == (0, None)


def test_a_changed_subscription_names_the_topics() -> None:
    story = LogStory().given({"a": [0], "b": [1]}).wait(1)
    story.given({"a": [0], "b": [1]}, topics={"a": ["t", "new"]})
    [cause] = last(story).causes
    assert (cause.kind, cause.who, cause.detail) == ("subscription", "a", "+new")


def test_partitions_that_were_added_are_counted() -> None:
    [cause] = last(LogStory().given({"a": [0], "b": [1]}).wait(1).given({"a": [0, 2], "b": [1, 3]})).causes
    assert (cause.kind, cause.detail) == ("partitions", "t: 2 -> 4 assigned")


def test_a_leader_that_saw_no_topic_is_not_told_as_a_deletion() -> None:
    story = LogStory().given({"a": [0], "b": [1]}).wait(1).given({"a": [], "b": []}).wait(1)
    assert [(c.kind, "or the leader" in c.detail) for c in last(story).causes] == [("unassigned", True)]
    [cause] = last(story.given({"a": [0], "b": [1]})).causes
    assert (cause.kind, cause.detail) == ("partitions", "t: its 2 partitions are assigned again")


def test_another_assignor_is_a_cause() -> None:
    story = LogStory().given({"a": [0], "b": [1]}).wait(1)
    story.protocol = "sticky"
    [cause] = last(story.given({"a": [0], "b": [1]})).causes
    assert (cause.kind, cause.detail) == ("assignor", "range -> sticky")


def test_without_a_difference_no_cause_is_made_up() -> None:
    assert told(three().given({"a": [0, 1], "b": [2, 3], "c": [4, 5]}))[-1] == [("unexplained", "")]


def test_a_hand_over_is_part_of_its_rebalance() -> None:
    """d's partition is withheld for one generation, and then given to it: one cause, two generations, one move."""
    story = LogStory("cooperative-sticky").given({"a": [0, 1], "b": [2, 3], "c": [4, 5]}).wait(60)
    story.given({"a": [0], "b": [2, 3], "c": [4, 5], "d": []}, cooperative=True).wait(0.2)
    story.given({"a": [0], "b": [2, 3], "c": [4, 5], "d": [1]}, cooperative=True)
    found = rebalances(story.log)
    assert [each.generations for each in found] == [(1,), (2, 3)]
    assert (found[1].moved, found[1].needless, found[1].eager) == (1, 0, False)
    assert found[1].took_ms == 220
    assert found[1].at_least_ms == 20


def test_an_interrupted_hand_over_is_no_growth() -> None:
    """A member joins while a partition is withheld: that partition is not new."""
    story = LogStory("cooperative-sticky").given({"a": [0, 1], "b": [2, 3], "c": [4, 5]}).wait(60)
    story.given({"a": [0], "b": [2, 3], "c": [4, 5], "d": []}, cooperative=True).wait(0.2)
    story.given({"a": [0], "b": [2, 3], "c": [4, 5], "d": [1], "e": []}, cooperative=True)
    assert told(story)[-1] == [("joined", "e")]


def test_eager_members_that_claim_nothing_have_stopped() -> None:
    assert last(three().given({"a": [0], "b": [2, 3], "c": [4, 5], "d": [1]})).eager is True


def test_commits_on_both_sides_bound_the_time_without_owner() -> None:
    story = LogStory().given({"a": [0, 1]}).commit(0, 1).wait(1).given({"a": [0], "b": [1]}).wait(2).commit(1)
    found = last(story)
    assert (found.ownerless, found.at_least_ms, found.at_most_ms) == (1, 20, 3000)


def test_without_a_commit_there_is_no_upper_bound() -> None:
    found = last(LogStory().given({"a": [0, 1]}).wait(1).given({"a": [0], "b": [1]}))
    assert (found.ownerless, found.at_least_ms, found.at_most_ms) == (1, 20, None)


def test_generations_that_the_log_lacks_are_told() -> None:
    story = three()
    story.generation = 4
    assert last(story.given({"a": [0, 1], "b": [2, 3], "c": [4, 5]})).missing == (2, 4)


def test_an_empty_group_has_no_leader_and_its_return_no_moves() -> None:
    story = three().given({}).wait(120).given({"a": [0, 1, 2], "b": [3, 4, 5]})
    empty, back = rebalances(story.log)[-2:]
    assert (empty.members, empty.leader) == (0, None)
    assert (back.moved, {cause.kind for cause in back.causes}) == (0, {"joined"})


def test_the_last_ones_are_told_as_in_the_whole() -> None:
    """Also a restart whose departure is not among them."""
    story = three().given({"a": [0, 1, 2], "c": [3, 4, 5]}).wait(9)
    story.given({"a": [0, 1], "c": [4, 5], "b": [2, 3]}, hosts={"b": 2})
    assert rebalances(story.log, 1) == rebalances(story.log)[-1:]
    assert told(story)[-1] == [("restarted", "b")]
