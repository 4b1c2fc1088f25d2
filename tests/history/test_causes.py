"""Members that are back: of which rebalance they were gone."""

from __future__ import annotations

from kafka_assignors.history.causes import Cause, Restarts


def test_who_was_gone_in_an_earlier_rebalance_of_the_same_millisecond_is_back() -> None:
    """Two rebalances may have one time in the log; the first one's cause stays where it was told."""
    restarts = Restarts()
    gone = Cause("left", "a", client_id="a", host="h", member_id="a-1")
    joined = Cause("joined", "a", client_id="a", host="h", member_id="a-2")

    assert restarts.final_causes(5, [gone]) == (gone,)
    (back,) = restarts.final_causes(5, [joined])

    assert (back.who, back.kind, back.away_ms) == ("a", "restarted", 0)
