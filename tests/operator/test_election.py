"""The vote, as `ClassicGroup.selectProtocol` of the broker counts it."""

from __future__ import annotations

from itertools import permutations

import confluent_kafka
import pytest

from kafka_assignors.core.group.order import hash_order
from kafka_assignors.errors import ElectionError, UnknownName
from kafka_assignors.operator.election import elect


@pytest.mark.source("apache/kafka 4.3.0 ClassicGroup.selectProtocol")
def test_the_majority_of_first_choices_among_the_candidates_wins():
    election = elect(
        {
            "c1": ["range", "roundrobin", "custom"],
            "c2": ["range", "roundrobin", "sticky"],
            "c3": ["roundrobin", "range", "sticky"],
        }
    )

    assert election.winner == "range"
    assert set(election.candidates) == {"range", "roundrobin"}
    assert election.votes == {"range": 2, "roundrobin": 1}
    assert election.voted == {"c1": "range", "c2": "range", "c3": "roundrobin"}
    assert election.tied == ()
    assert election.explanation == "range wins by votes, range 2 : roundrobin 1"


def test_a_first_choice_that_not_all_offer_is_no_candidate():
    election = elect({"c1": ["custom", "roundrobin"], "c2": ["sticky", "roundrobin", "range"]})

    assert (election.winner, election.candidates) == ("roundrobin", ("roundrobin",))
    assert election.explanation == "roundrobin wins: only this assignor is offered by all 2 members"


@pytest.mark.source("apache/kafka 4.3.0 ClassicGroup.selectProtocol, run against a broker")
@pytest.mark.parametrize(
    ("first", "second"),
    [("range", "roundrobin"), ("sticky", "roundrobin"), ("lag", "range"), ("range", "cooperative-sticky")],
)
def test_ties_go_by_hash_whatever_the_lists_say(first, second):
    for lists in permutations([[first, second], [second, first]]):
        election = elect(dict(zip("ab", lists, strict=True)))
        assert election.winner == first
        assert election.tied == (first, second)
        assert "wins a tie" in election.explanation


@pytest.mark.source("java.util.HashMap of JDK 17")
def test_hash_order():
    names = ["cooperative-sticky", "roundrobin", "range", "sticky", "optimal", "lag", "optimal-sticky"]
    assert hash_order(sorted(names)) == names[::-1]


@pytest.mark.source("apache/kafka 4.3.0 ClassicGroup.selectProtocol, run against a broker")
def test_names_in_one_bucket_go_by_the_members_own_hash_order():
    """Both names hash to bucket 4 of 16; member "q" to bucket 1 and "r" to 2, whoever joined first."""
    first, second = ["optimal", "consistent-hash"], ["consistent-hash", "optimal"]
    assert hash_order(["r", "q"]) == ["q", "r"]

    assert elect({"r": first, "q": second}).winner == "consistent-hash"
    assert elect({"r": second, "q": first}).winner == "optimal"


def test_a_tie_is_between_those_with_most_votes():
    """sticky comes before range by hash, but has one vote less."""
    lists = [["range", "roundrobin", "sticky"]] * 2 + [["roundrobin", "range", "sticky"]] * 2
    election = elect({**{str(i): each for i, each in enumerate(lists)}, "s": ["sticky", "range", "roundrobin"]})

    assert (election.winner, election.tied) == ("range", ("range", "roundrobin"))


def test_candidates_without_votes_count_zero():
    election = elect({"a": ["range", "sticky"], "b": ["range", "sticky"]})
    assert election.votes == {"range": 2, "sticky": 0}


def test_no_common_assignor_names_who_lacks_what():
    with pytest.raises(ElectionError) as raised:
        elect({"a": ["range", "sticky"], "b": ["range"], "c": ["roundrobin"]})

    assert "INCONSISTENT_GROUP_PROTOCOL" in str(raised.value)
    assert "'range' comes closest; members without it: 'c' (offers roundrobin)" in str(raised.value)


def test_an_empty_group_does_not_vote():
    with pytest.raises(ElectionError, match="the group has no members"):
        elect({})


@pytest.mark.parametrize("offered", [[], "range"])
def test_a_member_without_a_list_is_named(offered):
    with pytest.raises(ElectionError, match="member 'b' offers"):
        elect({"a": ["range"], "b": offered})


# ------------------------------------------------------------------------------------------------- unsafe mixes

OLD, BOTH, NEW = ["range"], ["cooperative-sticky", "range"], ["cooperative-sticky"]


def test_a_good_list_warns_of_nothing():
    for lists in ([OLD, OLD], [NEW, NEW], [["sticky", "range"], ["range", "sticky"]]):
        assert elect(dict(zip("ab", lists, strict=True))).warnings == ()


@pytest.mark.source("KIP-429, from the eager rebalance protocol to the cooperative one")
@pytest.mark.parametrize(
    ("lists", "winner", "warning"),
    [
        ([BOTH, OLD, OLD], "range", "rolling bounce 1 to cooperative-sticky is incomplete: 'b', 'c' are without it"),
        ([BOTH, BOTH, OLD], "range", "rolling bounce 1 to cooperative-sticky is incomplete: 'c' is without it"),
        (
            [BOTH, BOTH, BOTH],
            "cooperative-sticky",
            "all members offer cooperative-sticky with other names, so all stay",
        ),
        (
            [NEW, BOTH, BOTH],
            "cooperative-sticky",
            "rolling bounce 2 to cooperative-sticky is incomplete: 'b', 'c' are still EAGER",
        ),
    ],
)
def test_a_change_to_cooperative_says_how_far_it_is(lists, winner, warning):
    election = elect(dict(zip("abc", lists, strict=True)))
    assert election.winner == winner
    (told,) = election.warnings
    assert told.startswith(warning)


def test_the_second_bounce_before_the_first_is_named_in_the_error():
    with pytest.raises(ElectionError) as raised:
        elect({"a": OLD, "b": BOTH, "c": NEW})
    assert "two rolling bounces: first add it to every member's list, then remove the old name" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("lists", "clients", "warning"),
    [
        (
            [BOTH, BOTH],
            {"a": "librdkafka"},
            "member 'a': librdkafka rejects cooperative-sticky beside an eager assignor",
        ),
        ([BOTH, BOTH], {"b": "kafka-python"}, "member 'b': kafka-python rejects cooperative-sticky beside an eager"),
        (
            [["sticky"], ["sticky"]],
            {"a": "librdkafka"},
            "member 'a': librdkafka has no assignor sticky, and accepts no others",
        ),
        (
            [["sticky"], ["sticky"]],
            {"a": "kafka-python", "b": "java"},
            "'sticky' wins, but kafka-python's assignor writ",
        ),
        ([["sticky"], ["sticky"]], {"a": "aiokafka"}, "'sticky' wins, but aiokafka's assignor sends no generation"),
        (
            [NEW, NEW],
            {"a": "java", "b": "kafka-python"},
            "'cooperative-sticky' wins, but kafka-python's assignor claims",
        ),
    ],
)
def test_what_clients_cannot_do_together_is_warned_of(lists, clients, warning):
    told = elect(dict(zip("ab", lists, strict=True)), clients).warnings
    assert any(each.startswith(warning) for each in told), told


def test_clients_that_go_together_are_not_warned_of():
    assert elect({"a": ["sticky"], "b": ["sticky"]}, {"a": "java", "b": "kafka-assignors"}).warnings == ()
    assert elect({"a": ["sticky"], "b": ["sticky"]}, {"a": "kafka-python", "b": "kafka-python"}).warnings == ()
    assert elect({"a": NEW, "b": NEW}, {"a": "java", "b": "librdkafka"}).warnings == ()


def test_librdkafka_and_kafka_python_do_refuse_both():
    with pytest.raises(confluent_kafka.KafkaException, match=r"must have the same protocol type"):
        confluent_kafka.Consumer({"group.id": "g", "partition.assignment.strategy": "range,cooperative-sticky"})
    with pytest.raises(confluent_kafka.KafkaException, match=r"sticky"):
        confluent_kafka.Consumer({"group.id": "g", "partition.assignment.strategy": "sticky"})


def test_an_unknown_client_lists_the_known_ones():
    with pytest.raises(UnknownName, match=r"unknown client 'kafkajs'; known: java, librdkafka, kafka-python"):
        elect({"a": OLD}, {"a": "kafkajs"})
