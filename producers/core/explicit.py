"""The partition a record names itself."""

from __future__ import annotations

import operator
from collections.abc import Mapping

from ..errors import InvalidPartition
from .topic import TopicView

NO_PARTITION = -1
"""What records use, besides None, to say "no matter which"."""


def from_value(value: object) -> object:
    """What a record's value says of its partition: ``value["partition"]`` or ``value.partition``, None when neither.

    A method of that name (str and bytes have one) is no answer.
    """
    if isinstance(value, Mapping):
        return value.get("partition")
    named = getattr(value, "partition", None)
    return None if callable(named) else named


def choose(view: TopicView, answer: object, partitioner: str = "explicit") -> int | None:
    """The named partition, or None when the record names none that the topic has.

    Args:
        view: The topic.
        answer: What the record says: a partition id, or None or -1 for "no matter which".
        partitioner: Name for the message.

    Returns:
        The id, or None for None, -1 and ids that the topic does not have: the caller's policy decides about those.

    Raises:
        InvalidPartition: Not an integer at all. That is a mistake no policy should hide.
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
