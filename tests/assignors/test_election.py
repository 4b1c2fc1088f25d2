"""The vote, as `ClassicGroup.selectProtocol` of the broker counts it."""

from __future__ import annotations

from itertools import permutations

import pytest

from kafka_assignors.core.order import hash_order
from kafka_assignors.election import elect
from kafka_assignors.errors import ElectionError


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
    assert election.explanation == "roundrobin wins: it is the only assignor that all 2 members offer"


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
    assert "'range' comes closest, but it lacks in 'c' (offers roundrobin)" in str(raised.value)


def test_an_empty_group_does_not_vote():
    with pytest.raises(ElectionError, match="the group has no members"):
        elect({})


@pytest.mark.parametrize("offered", [[], "range"])
def test_a_member_without_a_list_is_named(offered):
    with pytest.raises(ElectionError, match="member 'b' offers"):
        elect({"a": ["range"], "b": offered})
