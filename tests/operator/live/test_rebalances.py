"""Causes, moves and bounds of rebalances, from logs built by hand: what is told, and what is never claimed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_assignors.history.coordinator_log import GroupCommitted
from kafka_assignors.history.generations import Logged
from kafka_assignors.history.rebalances import Rebalance, rebalances
from kafka_assignors.operator.cli.why import as_json, lines
from kafka_assignors.operator.live.advice import advice
from tests.support.live.log import LogStory


def named_app(record: Logged) -> Logged:
    """The same generation, with b and c of one client on one host."""
    assert isinstance(record.value, GroupCommitted)
    members = [
        member if member.client_id == "a" else replace(member, client_id="app", client_host="/10.0.0.9")
        for member in record.value.members
    ]
    return Logged(record.ts_ms, replace(record.value, members=tuple(members)))


def told(story: LogStory) -> list[list[tuple[str, str]]]:
    return [[(cause.kind, cause.who) for cause in each.causes] for each in rebalances(story.log)]


def last(story: LogStory) -> Rebalance:
    return rebalances(story.log)[-1]


def parts(found: Rebalance) -> dict[str, tuple[float, float | None, tuple[str, ...], str]]:
    """Part of the stop -> its bounds, on whom it depends, and by which setting."""
    return {p.what: (p.at_least_ms, p.at_most_ms, p.who, p.setting) for p in found.parts}


def three() -> LogStory:
    return LogStory().given({"a": [0, 1], "b": [2, 3], "c": [4, 5]}).wait(60)


def test_the_first_generation_is_told_as_the_first() -> None:
    assert told(three()) == [[("first", "")]]


def test_a_group_that_is_written_before_its_first_member_joined_has_no_generation_yet() -> None:
    """Kafka 4 writes a new group as generation 0, without members."""
    story = LogStory(generation=-1).given({}).wait(0.1).given({"a": [0, 1]})
    assert [record.value.generation for record in story.records if isinstance(record.value, GroupCommitted)] == [0, 1]
    assert told(story) == [[("first", "")]]


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


def test_a_member_that_is_back_with_its_id_is_the_same_process() -> None:
    """A KIP-848 member keeps its id for life: a member that was fenced joins with it again."""
    story = three().given({"a": [0, 1, 2], "c": [3, 4, 5]}, hosts={"c": 3}).wait(9)
    story.given({"a": [0, 1], "b": [2, 3], "c": [4, 5]})
    assert told(story)[-1] == [("rejoined", "b")]
    [cause] = last(story).causes
    assert (cause.member_id, cause.away_ms) == ("b-0", 9000)
    [line] = [line for line in advice(rebalances(story.log)) if line.startswith("b joined again")]
    assert "its process lived on" in line
    assert not any("group.instance.id" in line for line in advice(rebalances(story.log)))


def test_the_same_process_is_recognized_before_another_of_its_client_id() -> None:
    """Two members of one client id on one host are gone; one of them is back with its id, the other as another."""
    owned = {"a": [0, 1], "b": [2, 3], "c": [4, 5]}
    story = LogStory().given(owned, ids={"b": "app-1", "c": "app-2"}).wait(60).given({"a": [0, 1, 2, 3, 4, 5]}).wait(9)
    story.given(owned, ids={"b": "app-3", "c": "app-1"})
    story.records[0], story.records[-1] = named_app(story.records[0]), named_app(story.records[-1])
    assert sorted((c.kind, c.member_id) for c in last(story).causes) == [("rejoined", "app-1"), ("restarted", "app-3")]


def test_a_member_with_an_instance_id_is_not_told_to_set_one() -> None:
    """Its session had expired before it was back: that is told. A process that begins to have one is no such case."""
    story = LogStory().given({"a": [0], "b": [1]}, static=["b"]).wait(60).given({"a": [0, 1]}).wait(9)
    story.given({"a": [0], "b": [1]}, static=["b"], ids={"b": "b-1"})
    assert told(story)[-1] == [("returned", "b")]
    [line] = [line for line in advice(rebalances(story.log)) if "instance" in line]
    assert line.startswith("b came back after the coordinator had removed it, although it has an instance id")
    assert "session.timeout.ms above" in line

    begins = three().given({"a": [0, 1], "b": [2, 3], "c": [4, 5]}, ids={"b": "b-1"}, static=["b"])
    assert told(begins)[-1] == [("restarted", "b")]
    assert not any("instance" in line for line in advice(rebalances(begins.log)))


def test_a_member_has_one_name_in_all_generations() -> None:
    """b and c have the same client id, and each of them is alone with it in a generation."""
    story = LogStory().given({"a": [0], "b": [1, 2]}, ids={"b": "app-11111111-2"}).wait(60)
    story.given({"a": [0], "b": [1], "c": [2]}, ids={"b": "app-11111111-2", "c": "app-33333333-4"}).wait(60)
    story.given({"a": [0], "c": [1, 2]}, ids={"c": "app-33333333-4"})
    story.records[:] = map(named_app, story.records)

    [first, second, third] = rebalances(story.log)
    assert [(cause.kind, cause.who) for cause in second.causes] == [("joined", "app-33333333")]
    assert [(cause.kind, cause.who) for cause in third.causes] == [("left or expired", "app-11111111")]
    assert (first.leader, third.leader) == ("a", "a")


@pytest.mark.parametrize(("told_subscriptions", "count"), [(True, 3), (False, 2)])
def test_a_second_round_is_part_of_a_rebalance_though_no_claims_are_recorded(
    told_subscriptions: bool, count: int
) -> None:
    """As of librdkafka's members, which record no subscription; members that tell one, and claim nothing, are eager."""
    story = LogStory().given({"a": [0, 1]}).wait(60).given({"a": [0], "b": []}).given({"a": [0], "b": [1]})
    if not told_subscriptions:
        for n, record in enumerate(story.records):
            assert isinstance(record.value, GroupCommitted)
            members = tuple(replace(member, subscription=b"") for member in record.value.members)
            story.records[n] = replace(record, value=replace(record.value, members=members))

    assert len(rebalances(story.log)) == count


def test_advice_names_three_and_says_how_many_more() -> None:
    owned = {name: [n] for n, name in enumerate("abcd")}
    story = LogStory().given(owned).wait(60).given(owned, ids={name: f"{name}-1" for name in "abcd"})
    [line] = [line for line in advice(rebalances(story.log)) if "restarts" in line]
    assert line.startswith("4 restarts of a, b, c and 1 more: ")


def test_a_restart_is_advised_by_the_time_that_it_takes() -> None:
    owned = {"a": [0], "b": [1]}
    story = LogStory().given(owned).wait(60).given({"a": [0, 1]}).wait(12.6).given(owned, ids={"b": "b-1"})
    [line] = [line for line in advice(rebalances(story.log)) if "restart" in line]
    assert line.startswith("1 restart of b, back after up to 12.6 s: with group.instance.id set, and a session.timeout")


def test_a_static_member_that_comes_back_is_no_restart() -> None:
    story = LogStory().given({"a": [0], "b": [1]}, static=["b"]).wait(1)
    story.generation -= 1  # the coordinator writes the same generation again
    story.given({"a": [0], "b": [1]}, static=["b"], ids={"b": "b-1"})
    assert told(story)[-1] == [("returned", "b")]
    assert (last(story).moved, last(story).missing, last(story).ownerless) == (0, None, 0)
    assert (last(story).rewritten, as_json("g", True, rebalances(story.log))["totals"]["rebalances"]) == (True, 1)


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


def test_a_hand_over_that_is_interrupted_has_withheld_what_it_did_not_move() -> None:
    """Moved and withheld together are what was needed; the next rebalance moves the rest."""
    story = LogStory("cooperative-sticky").given({"a": [0, 1, 2, 3, 4, 5]}).wait(60)
    story.given({"a": [0, 1, 2], "b": []}, cooperative=True).wait(0.2)
    story.given({"a": [0, 1], "b": [], "c": []}, cooperative=True).wait(0.2)
    story.given({"a": [0, 1], "b": [2, 3], "c": [4, 5]}, cooperative=True)
    first, second = rebalances(story.log)[-2:]
    assert (first.moved, first.withheld, first.least) == (0, 3, 3)
    assert (second.moved, second.withheld, second.least) == (4, 0, 4)
    [cost] = [line for line in lines("g", True, [first]) if "moved" in line and "Together" not in line]
    assert "moved 0; withheld 3; needed 3" in cost


def test_an_assignment_that_moves_less_than_an_even_one_is_not_said_to_have_needed_more() -> None:
    """Range gives d nothing of b's: one move, where an even assignment takes more."""
    story = LogStory().given({"a": [0, 1, 2, 3, 4], "b": [5]}).wait(60).given({"a": [0, 1, 2, 3], "b": [5], "c": [4]})
    found = last(story)
    assert (found.living, found.least, found.needless) == (1, 3, 0)
    [cost] = [line for line in lines("g", True, [found]) if "living" in line]
    assert "needed" not in cost
    assert "the most even assignment needs 3" in cost


def test_an_interrupted_hand_over_is_no_growth() -> None:
    """A member joins while a partition is withheld: that partition is not new."""
    story = LogStory("cooperative-sticky").given({"a": [0, 1], "b": [2, 3], "c": [4, 5]}).wait(60)
    story.given({"a": [0], "b": [2, 3], "c": [4, 5], "d": []}, cooperative=True).wait(0.2)
    story.given({"a": [0], "b": [2, 3], "c": [4, 5], "d": [1], "e": []}, cooperative=True)
    assert told(story)[-1] == [("joined", "e")]


def test_eager_members_that_claim_nothing_have_stopped() -> None:
    assert last(three().given({"a": [0], "b": [2, 3], "c": [4, 5], "d": [1]})).eager is True


def test_commits_on_both_sides_bound_the_time_without_owner() -> None:
    story = LogStory("cooperative-sticky").given({"a": [0, 1]}, cooperative=True).commit(0, 1).wait(1)
    found = last(story.given({"a": [0], "b": [1]}, cooperative=True).wait(2).commit(1))
    assert (found.ownerless, found.at_least_ms, found.at_most_ms) == (1, 20, 3000)


def test_an_eager_rebalance_stops_what_its_members_get_back() -> None:
    """a gives 0 up as it joins, and gets it back: a needless revoke, and a stop like that of 1, which moves."""
    story = LogStory().given({"a": [0, 1]}).commit(0, 1).wait(1).given({"a": [0], "b": [1]}).wait(2).commit(0, 1)
    found = last(story)
    assert (found.moved, found.needless, found.returned) == (1, 0, 1)
    assert (found.ownerless, found.at_least_ms, found.at_most_ms) == (2, 20, 3000)
    assert (found.area_at_least_ms, found.area_at_most_ms) == (40, 6000)


def test_a_static_member_that_was_away_during_an_eager_rebalance_is_no_needless_revoke() -> None:
    """b is back as another process: it stopped, but nobody took its partitions from it to give them back."""
    story = LogStory().given({"a": [0], "b": [1]}, static=["b"]).wait(1)
    found = last(story.given({"a": [0], "b": [1]}, static=["b"], ids={"b": "b-1"}))
    assert (found.moved, found.returned, found.ownerless, found.rewritten) == (0, 1, 2, False)


def test_without_a_commit_there_is_no_upper_bound() -> None:
    found = last(LogStory().given({"a": [0, 1]}).wait(1).given({"a": [0], "b": [1]}))
    assert (found.ownerless, found.at_least_ms, found.at_most_ms) == (2, 20, None)


def test_a_member_that_left_or_expired_has_one_time_for_each() -> None:
    """Between them there is nothing: it left when it was found gone, or was silent for its session (6 s) before."""
    story = three().commit(2, 3).wait(60).given({"a": [0, 1, 2], "c": [4, 5, 3]}).wait(1).commit(0, 1, 2, 3, 4, 5)
    found = last(story)
    assert (found.at_least_ms, found.at_most_ms, found.expired_ms) == (20, None, 6020)
    [cost] = [line for line in lines("g", True, [found]) if "without owner" in line]
    assert "at least 120 partition-ms without owner, 6 partitions for 20 ms if the member left, about 6.0 s if" in cost
    assert parts(found)["heard"][1] is None  # nobody had to hear of its silence
    assert "at most" not in cost

    every = range(6)
    proven = three().commit(*every).wait(1).given({"a": [0, 1, 2], "c": [4, 5, 3]}).commit(*every)
    assert last(proven).expired_ms is None
    [cost] = [line for line in lines("g", True, [last(proven)]) if "without owner" in line]
    assert "for at least 20 ms, at most 1.0 s" in cost


def test_generations_that_the_log_lacks_are_told() -> None:
    story = three()
    story.generation = 4
    assert last(story.given({"a": [0, 1], "b": [2, 3], "c": [4, 5]})).missing == (2, 4)


def test_an_empty_group_has_no_leader_and_its_return_no_moves() -> None:
    story = three().given({}).wait(120).given({"a": [0, 1, 2], "b": [3, 4, 5]})
    empty, back = rebalances(story.log)[-2:]
    assert (empty.emptied, back.emptied) == (True, False)
    assert (empty.members, empty.leader) == (0, None)
    assert (back.moved, {cause.kind for cause in back.causes}) == (0, {"joined"})


def test_the_last_ones_are_told_as_in_the_whole() -> None:
    """Also a restart whose departure is not among them."""
    story = three().given({"a": [0, 1, 2], "c": [3, 4, 5]}).wait(9)
    story.given({"a": [0, 1], "c": [4, 5], "b": [2, 3]}, hosts={"b": 2}, ids={"b": "b-1"})
    assert rebalances(story.log, 1) == rebalances(story.log)[-1:]
    assert told(story)[-1] == [("restarted", "b")]


def test_a_group_that_its_last_member_leaves_has_not_rebalanced() -> None:
    """It is told, and neither it nor the time until it is counted."""
    story = three().given({"a": [0, 1], "b": [2, 3], "c": [4, 5], "d": []}).wait(3600).given({})
    found = rebalances(story.log)
    head = next(lines("g", True, found))
    assert head.startswith("[bold]g[/]: 2 rebalances in 60.0 s; now generation 3, empty")
    assert as_json("g", True, found)["totals"]["rebalances"] == 2
    assert len(found) == 3
    alone = LogStory().given({"a": [0]}).wait(1).given({})
    assert next(lines("g", True, rebalances(alone.log))).startswith("[bold]g[/]: 1 rebalance; now")


def cooperative(second_s: float) -> LogStory:
    """d joins a, b and c, which keep what they have: a and b give one partition up each, and d has both later."""
    story = LogStory("cooperative-sticky").given({"a": [0, 1], "b": [2, 3], "c": [4, 5]}, cooperative=True).wait(60)
    story.commit(1, 3).wait(1)
    story.given({"a": [0], "b": [2], "c": [4, 5], "d": []}, cooperative=True).wait(second_s)
    return story.given({"a": [0], "b": [2], "c": [4, 5], "d": [1, 3]}, cooperative=True).wait(0.04).commit(1, 3)


def test_a_cooperative_stop_is_split_into_its_second_round_and_its_ends() -> None:
    found = last(cooperative(2.9))

    assert parts(found) == {
        "assigned": (20, 20, ("a",), ""),
        "second round": (0, 2880, ("a", "b"), "heartbeat.interval.ms"),
        "taken over": (0, 40, ("d",), ""),
    }
    told = [line.strip() for line in lines("g", True, [found])]
    [cost] = [line for line in told if "partition-ms" in line]
    assert cost.startswith(
        "40 to 7,880 partition-ms without owner, 2 partitions for at least 20 ms, at most 3.9 s; moved"
    )
    [second] = [line for line in told if "joined again" in line and line.startswith("[dim]")]
    assert second.startswith("[dim]up to 2.9 s[/] until those that gave partitions up")
    assert second.endswith(": a, b (heartbeat.interval.ms)")
    [advised] = [line for line in advice([found]) if line.startswith("A second round took up to 2.9 s: a, b gave")]
    assert "guard()" in advised


def test_a_quick_second_round_needs_no_advice() -> None:
    assert not any("second round" in line for line in advice([last(cooperative(0.05))]))


def test_an_eager_stop_is_split_into_who_had_to_hear_of_it_and_the_leader() -> None:
    """Every member stopped when it heard of it, so the last commits before bound that."""
    story = three().commit(0, 2, 4).wait(2.5)
    story.given({"a": [0], "b": [2, 3], "c": [4, 5], "d": [1]}, join_ms=1200).wait(0.5).commit(0, 1, 2, 3, 4, 5)
    found = last(story)

    assert parts(found) == {
        "heard": (0, 1300, ("a", "b", "c"), "heartbeat.interval.ms"),
        "assigned": (1200, 1200, ("a",), ""),
        "taken over": (0, 500, ("a", "b", "c", "d"), ""),
    }
    said = advice([found])
    assert any(line.startswith("Partitions waited up to 1.3 s until a, b, c had heard") for line in said)
    assert any(line.startswith("a took 1.2 s to assign, as the leader") for line in said)


def test_only_what_a_leaver_had_stops_in_a_cooperative_group() -> None:
    story = (
        LogStory("cooperative-sticky").given({"a": [0, 1], "b": [2]}, cooperative=True).wait(60).commit(0, 2).wait(2)
    )
    found = last(story.given({"a": [0, 1, 2]}, cooperative=True).wait(1).commit(2))

    assert parts(found) == {
        "heard": (0, 1980, ("a",), "heartbeat.interval.ms"),
        "assigned": (20, 20, ("a",), ""),
        "taken over": (0, 1000, ("a",), ""),
    }


def test_without_commits_and_times_nothing_is_made_up() -> None:
    found = last(three().given({"a": [0], "b": [2, 3], "c": [4, 5], "d": [1]}))
    assert parts(found)["heard"][1] is parts(found)["taken over"][1] is None
    assert not any("had heard" in line for line in [*lines("g", True, [found]), *advice([found])])
    story = three()
    old = story.given({"a": [0], "b": [2, 3], "c": [4, 5], "d": [1]}, join_ms=story.ms)
    assert last(old).parts == ()


def test_a_rebalance_that_stops_nobody_has_no_parts() -> None:
    story = LogStory("cooperative-sticky").given({"a": [0, 1]}, cooperative=True).wait(60)
    assert last(story.given({"a": [0, 1], "b": []}, cooperative=True)).parts == ()
    assert rebalances(three().log)[0].parts == ()
