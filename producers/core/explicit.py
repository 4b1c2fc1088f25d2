"""The partition that a record names."""

from __future__ import annotations

import operator
from collections.abc import Mapping

from ..errors import InvalidPartition
from .topic import TopicView

NO_PARTITION = -1
"""Like None, a record's way to name no partition."""


def from_value(value: object) -> object:
    """The partition that a record's value names: ``value["partition"]`` or ``value.partition``; None without either.

    A method of that name (str and bytes have one) names none.
    """
    if isinstance(value, Mapping):
        return value.get("partition")
    named = getattr(value, "partition", None)
    return None if callable(named) else named


def choose(view: TopicView, answer: object, partitioner: str = "explicit") -> int | None:
    """The named partition, or None when the record names none that the topic has.

    Args:
        view: The topic.
        answer: The partition id that the record names; None or -1 if it names none.
        partitioner: Name for the message.

    Returns:
        The id; None for None, -1 and ids that the topic does not have, which the caller's policy decides.

    Raises:
        InvalidPartition: Not an integer. No policy should hide that mistake.
    """
    if answer is None:
        return None
    if isinstance(answer, bool):
        raise InvalidPartition(partitioner, view.topic, answer, view.partitions)
    try:
        number = operator.index(answer)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidPartition(partitioner, view.topic, answer, view.partitions) from None
    return number if number in view else None
