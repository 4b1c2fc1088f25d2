"""Histories that a judge once accepted, with the law that rejects each."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.damage.laws import bounced, twice
from tests.support.histories import stories as told
from tests.support.histories.stories import COOPERATIVE, renamed
from tests.support.histories.story import Story

REJECTED: dict[str, tuple[set[str], Callable[[], Story]]] = {
    "1 a killed member is never evicted": ({"P1", "T1"}, told.killed_and_never_evicted),
    "2 the leader's assign raises": ({"P1"}, told.assign_raised),
    "3 a callback never comes": ({"P1", "R8"}, told.callback_never_came),
    "5 a callback names what nobody gave": ({"R8"}, told.assigned_what_nobody_gave),
    "6 adopted without a callback": ({"P1", "R8"}, told.adopted_without_callback),
    "7 nobody adopts the last generation": ({"G4", "P1"}, told.last_generation_not_adopted),
    "8 back to an older generation": ({"G4"}, told.went_back_a_generation),
    "9 adopted before its commit": ({"G4"}, told.adopted_before_commit),
    "10 an overlap behind a paused owner": ({"O1", "R1", "R8"}, told.overlap_behind_a_paused_owner),
    "11 a short pause": ({"O1", "R1"}, told.short_pause),
    "12 a delay long before": ({"O1"}, told.delay_long_before),
    "13 consumed after its revoke": ({"C1", "E1"}, told.consumed_after_revoke),
    "13 consumed after its death": ({"C1", "E1"}, told.consumed_after_death),
    "14 a zombie's commit is accepted": ({"C5"}, told.zombie_commit),
    "15 a storm of rebalances": ({"R5"}, told.storm),
    "16 offsets of another topic were reset": ({"C5", "C7"}, told.reset_of_another_topic),
    "17 a generation is written twice": ({"A1", "G1"}, told.generation_written_twice),
    "18 never settled": ({"O3", "P1"}, told.never_settled),
    "19 a fenced member consumes on": ({"G4", "S2"}, told.fenced_consumes_on),
    "20 R2 under another name": (
        {"R2"}, lambda: renamed(told.Grabbing(COOPERATIVE).start("a", "b").round().start("c").round(stable=False))),
    "20 R3 under another name": ({"R3"}, lambda: renamed(bounced())),
    "20 R5 under another name": ({"R5"}, lambda: renamed(twice(COOPERATIVE))),
    "25 an exit with an error": ({"E1"}, lambda: exited(code=1)),
    "25 a signal that nobody sent": ({"E1"}, lambda: exited(code=-9, signal="SIGKILL")),
}  # fmt: skip


def exited(**how: object) -> Story:
    """b ends by itself once it has left what it had."""
    story = told.two()
    story._callback("b", "revoke", story.held.pop("b"))
    if how["code"] == 1:
        story.tell("error", "member", "b", error="ValueError", fatal=True, message="its code raised")
    story.tell("exit", member="b", **how)
    return story.round()
