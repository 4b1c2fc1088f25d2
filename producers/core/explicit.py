"""The partition that a record names."""

from __future__ import annotations

import operator
from collections.abc import Mapping

from ..errors import InvalidPartition
from .topic import TopicView

NO_PARTITION = -1
"""Like None, a record's value for "no partition"."""


def from_value(value: object) -> object:
    """The partition that a record's value names: ``value["partition"]`` or ``value.partition``, else None.

    A method of that name (as str and bytes have) does not count.
    """
    if isinstance(value, Mapping):
        return value.get("partition")
    named = getattr(value, "partition", None)
    return None if callable(named) else named


def choose(view: TopicView, answer: object, partitioner: str = "explicit") -> int | None:
    """The named partition; None for None, -1 and nonexistent ids, for which the caller's policy decides.

    Raises:
        InvalidPartition: Not an integer. No policy should hide that mistake. The message names `partitioner`.
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
