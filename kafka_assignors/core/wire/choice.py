"""Which weights a member sends.

A member sends the weights of the partitions it owns, and as many others as fit in `OTHERS` bytes: members that start
own nothing yet, and the leader must also know the weights of unowned partitions. So a new leader knows what the old one
knew.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ..group.indexed import Ints
from ..group.order import utf16
from . import limits
from .protocol import by_topic
from .weighted import Floats

OTHERS = 4_000
"""Bytes for weights of partitions that a member does not own: those of 200 members stay below a broker's limit."""


def chosen(
    weights: Mapping[str, Floats], owned: Collection[tuple[str, int]], identity: str, others: int = OTHERS
) -> dict[str, tuple[Ints, Floats]]:
    """Choose the weights that a member sends: those of its own partitions and of at most `others` more; NaN is unknown.

    `identity` determines where the others begin, so that members send different ones if not all fit.
    """
    topics = sorted(weights, key=utf16)
    ends = np.cumsum([len(weights[topic]) for topic in topics])
    total = int(ends[-1]) if len(ends) else 0
    first = dict(zip(topics, [0, *ends.tolist()], strict=False))
    picked = np.zeros(total, bool)
    begin = zlib.crc32(identity.encode("utf-8", "replace")) % total if total else 0
    picked[(begin + np.arange(min(others, total))) % max(total, 1)] = True
    for topic, ids in by_topic(owned).items():
        if topic in first:
            here: Ints = np.array([partition for partition in ids if partition < len(weights[topic])], np.int64)
            picked[first[topic] + here] = True
    selection = {}
    for topic in topics:
        values = weights[topic]
        at = np.flatnonzero(picked[first[topic] : first[topic] + len(values)] & ~np.isnan(values))
        selection[topic] = at, values[at]
    return selection


def arrays(weights: Mapping[str, Any]) -> dict[str, Floats]:
    """Weights by topic, of the form of `core.weighted.model.checked` -> weight per partition, NaN if unknown."""
    weight_arrays = {}
    for topic, topic_weights in weights.items():
        if isinstance(topic_weights, Mapping):
            weight_of = {int(p): weight for p, weight in topic_weights.items() if int(p) < limits.UNKNOWN_PARTITIONS}
            values = np.full(max(weight_of, default=-1) + 1, np.nan)
            values[list(weight_of)] = list(weight_of.values())
        else:
            values = np.array(topic_weights, np.float64)
        weight_arrays[topic] = values
    return weight_arrays
