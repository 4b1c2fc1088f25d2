"""Law G1 of groups whose broker assigns (KIP-848): epochs that fall are found, what begins anew is none of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_assignors.integration.checker import check
from tests.support.histories.story import Story

GROUP, TARGET, MEMBER = (
    ("ConsumerGroupMetadata", "epoch"),
    ("ConsumerGroupTargetAssignmentMetadata", "assignmentEpoch"),
    ("ConsumerGroupCurrentMemberAssignment", "memberEpoch"),
)
Said = tuple[tuple[str, str], str | None, int | None]


def committed(*said: Said) -> Story:
    """What the coordinator wrote: which record, of which member, its epoch; None: deleted."""
    story = Story()
    for (record, name), member_id, epoch in said:
        fields = {} if epoch is None else {"fields": {name: epoch}}
        story.tell("broker_assigned", "coordlog", record=record, **fields)
        story.events[-1] = replace(story.events[-1], member_id=member_id)
    return story


BROKEN: dict[str, tuple[str, tuple[Said, ...]]] = {
    "of the group": ("epoch 4 of the group was committed after 5", ((GROUP, None, 5), (GROUP, None, 4))),
    "of the target": ("assignmentEpoch 1 of the group was committed after 2", ((TARGET, None, 2), (TARGET, None, 1))),
    "of a member, others between": (
        "memberEpoch 6 of member m was committed after 7",
        ((MEMBER, "m", 7), (MEMBER, "n", 8), (GROUP, None, 8), (MEMBER, "m", 6)),
    ),
    "to nothing": ("epoch 0 of the group was committed after 3", ((GROUP, None, 3), (GROUP, None, 0))),
    "after a static member went away": (
        "epoch 4 of the group was committed after 5", ((GROUP, None, 5), (MEMBER, "m", -2), (GROUP, None, 4))),
}  # fmt: skip
LAWFUL: dict[str, tuple[int, tuple[Said, ...]]] = {
    "grow, and stay": (3, ((GROUP, None, 1), (GROUP, None, 2), (MEMBER, "m", 2), (MEMBER, "m", 2), (MEMBER, "m", 3))),
    "each its own": (0, ((GROUP, None, 5), (TARGET, None, 4), (MEMBER, "m", 3), (MEMBER, "n", 2))),
    "deleted": (0, ((GROUP, None, 5), (GROUP, None, None), (GROUP, None, 1))),
    "a static member away": (0, ((MEMBER, "m", 5), (MEMBER, "m", -2), (MEMBER, "m", 4))),
}


@pytest.mark.parametrize(("message", "said"), BROKEN.values(), ids=BROKEN)
def test_an_epoch_that_falls_is_found(message: str, said: tuple[Said, ...]) -> None:
    verdict = check(committed(*said).history)

    assert verdict.value is False
    assert [(v.law, v.message) for v in verdict.violations] == [("G1", message)]
    assert len(verdict.violations[0].witnesses) == 2


@pytest.mark.parametrize(("judged", "said"), LAWFUL.values(), ids=LAWFUL)
def test_epochs_that_may_be(judged: int, said: tuple[Said, ...]) -> None:
    verdict = check(committed(*said).history)

    assert (verdict.violations, verdict.checked["G1"]) == ((), judged)
