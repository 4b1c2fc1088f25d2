"""Java's assignors, asked again through the bytes that a group leader sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.assignors import golden
from tests.support.assignors.live import metadata

from .kafka_classes import KafkaClasses
from .remaking import Answer, NotMade

LEADER = 0  # broker id of every partition of a topic without replica information


def leader(protocol: str, kafka: KafkaClasses) -> Answer:
    """Each round is asked with its recorded claims, also where an earlier round is answered differently.

    ``determinism`` is read too: only rounds with one possible answer are asked.
    """

    def answer(round_: Mapping[str, Any]) -> dict[str, Any]:
        if (determinism := round_["determinism"]) != "exact":
            raise NotMade(f"determinism is {determinism!r}: Java has no single sound answer")
        step = golden.Step("", round_, protocol)
        found = kafka.leader.assign(protocol, golden.joined(step), _metadata(round_["cluster"]))
        if found.assignment is None:
            return {"expected": {"kind": "thrown", "error": found.thrown or "does not end"}}
        return {"expected": {"kind": "assignment", "assignment": found.assignment}}

    return answer


def _metadata(cluster: Mapping[str, Any]) -> bytes:
    brokers = {int(broker): rack for broker, rack in cluster.get("brokers", {LEADER: None}).items()}
    return metadata(
        {t: [(LEADER,)] * each if isinstance(each, int) else each for t, each in cluster["topics"].items()}, brokers
    )
