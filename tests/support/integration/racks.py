"""Groups over three racks."""

from __future__ import annotations

from kafka_assignors.integration.members.group import MemberGroup, Stable

RACK_OF_NODE = {1: "a", 2: "b", 3: "c"}


NAMES = {"ma": "a", "mb": "b", "mc": "c"}  # member -> rack


PLACED = {
    # every third partition in the same rack: a range without racks gives each member one partition of each
    "one replica": [[1], [2], [3]] * 3,
    "two replicas": [[1, 2], [2, 3], [3, 1]] * 3,
}


def one_leaves(members: MemberGroup, topic: str, assignor: str) -> tuple[Stable, Stable]:
    """The group of all three, and after the one in rack c has left."""
    for name, rack in NAMES.items():
        members.start(name, [topic], [assignor], rack=rack)
    three = members.wait_stable(timeout_s=60)
    members.step("mc leaves")
    members.stop("mc")
    two = members.wait_stable(timeout_s=60)
    members.close()
    return three, two
