"""A history whose assignments are swapped."""

from __future__ import annotations

from tests.support.histories.story import Story, churn


def swapped(protocol: str) -> Story:
    """A run in which two members have each other's partitions in the last generation."""

    def swap(data: dict) -> None:
        one, other = data["members"][:2]
        one["assigned"], other["assigned"] = other["assigned"], one["assigned"]

    return churn(protocol).change("generation_committed", swap)
