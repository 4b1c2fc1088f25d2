"""G5 of KIP-848 groups: the broker's records of a member agree with the member, and with each other. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kafka_assignors.history.broker_group import CURRENT, MEMBER, UNREVOKED
from kafka_assignors.history.events import Event
from kafka_assignors.history.events.bodies import AdminChangeBody, BrokerAssignedBody, StartBody

from ...ledger import GroupRecord, Process
from ..findings import Findings

_WHOLE = {"memberEpoch", "previousMemberEpoch", "state", "assignedPartitions", "partitionsPendingRevocation"}


def members_as_configured(record: GroupRecord, findings: Findings) -> None:
    """G5: the broker has each member with the name, instance id, timeout, assignor and topics with which it started."""
    changed = {e.member for e in record.events.of(AdminChangeBody) if e.body.subscription is not None}
    before: set[Process] = set()
    for event in _in_log_order(record):
        fields = event.body.fields
        process = record.processes.get(event.member_id or "")
        start = None if process is None else record.starts.get(process)
        if event.body.record != MEMBER or fields is None or process is None or start is None:
            continue
        if fields.get("classicMemberMetadata") is not None:
            continue  # in a group in migration, a member of the classic protocol
        if not record.speaks_consumer(process):
            message = f"{process[0]} did not start under the consumer protocol, and the broker has it there"
            findings.broken("G5", message, start, event)
            continue
        findings.judged("G5")
        for what, of_member, of_broker in _differences(fields, start):
            message = f"{process[0]} started with {what} {of_member!r}, and the broker has it with {of_broker!r}"
            findings.broken("G5", message, start, event)
        if process not in before and process[0] not in changed and start.body.config.pattern is None:
            before.add(process)
            if set(fields.get("subscribedTopicNames", ())) != set(start.body.topics):
                message = (
                    f"{process[0]} started with the topics {sorted(start.body.topics)}, and the broker has it with "
                    f"{sorted(fields.get('subscribedTopicNames', ()))}"
                )
                findings.broken("G5", message, start, event)


def _differences(fields: Mapping[str, Any], start: Event[StartBody]) -> Iterator[tuple[str, object, object]]:
    poll_interval_ms = start.body.config.max_poll_interval_ms
    if start.instance_id != fields.get("instanceId"):
        yield "the instance id", start.instance_id, fields.get("instanceId")
    if start.log_bytes is None and start.member != fields.get("clientId"):  # a service chooses its client id
        yield "the name", start.member, fields.get("clientId")
    if poll_interval_ms is not None and fields.get("rebalanceTimeoutMs") != poll_interval_ms:
        yield "max_poll_interval_ms", poll_interval_ms, fields.get("rebalanceTimeoutMs")
    if fields.get("serverAssignor") is not None and fields["serverAssignor"] not in start.body.assignors:
        yield "the assignors", start.body.assignors, fields["serverAssignor"]


def records_follow(record: GroupRecord, findings: Findings) -> None:
    """G5: each record of a member follows from the one before it, and one topic id has one name.

    The previous epoch of a current assignment is the epoch before it, its state says whether partitions are to be
    revoked, and a member has no partition that it must give up.
    """
    currents: dict[str, Event[BrokerAssignedBody]] = {}
    names: dict[str, tuple[str, Event]] = {}
    for event in _in_log_order(record):
        fields = event.body.fields
        for topic_id, name in (event.body.names or {}).items():
            findings.judged("G5")
            known_name, first = names.setdefault(topic_id, (name, event))
            if known_name != name:
                findings.broken("G5", f"the topic id {topic_id} is of {known_name}, and of {name}", first, event)
        member = event.member_id or ""
        if fields is None:
            if event.body.record in (CURRENT, MEMBER):
                currents.pop(member, None)
            continue
        if event.body.record != CURRENT:
            continue
        findings.judged("G5")
        last = currents.get(member)
        currents[member] = event
        if not fields.keys() >= _WHOLE:
            continue  # a history that was cut may lack all but the epoch
        assigned, revoking = _ids(fields["assignedPartitions"]), _ids(fields["partitionsPendingRevocation"])
        if both := assigned & revoking:
            findings.broken("G5", f"member {member} has partitions that it must give up: {sorted(both)[:3]}", event)
        if bool(revoking) != (fields["state"] == UNREVOKED):
            message = f"member {member} must give up {len(revoking)} partitions, and its state is {fields['state']}"
            findings.broken("G5", message, event)
        of_last = {} if last is None else last.body.fields or {}
        if not of_last.keys() >= _WHOLE or fields["memberEpoch"] < 0 or of_last["memberEpoch"] < 0:
            continue
        same = fields["memberEpoch"] == of_last["memberEpoch"]
        expected = (of_last["previousMemberEpoch"], of_last["memberEpoch"]) if same else (of_last["memberEpoch"],)
        if fields["previousMemberEpoch"] not in expected:
            message = (
                f"member {member} came to epoch {fields['memberEpoch']} from epoch {fields['previousMemberEpoch']}, "
                f"and was in epoch {of_last['memberEpoch']}"
            )
            findings.broken("G5", message, last, event)


def _ids(rows: list[dict[str, Any]]) -> set[tuple[str, int]]:
    return {(row["topicId"], partition) for row in rows for partition in row["partitions"]}


def _in_log_order(record: GroupRecord) -> list[Event[BrokerAssignedBody]]:
    return sorted(record.events.of(BrokerAssignedBody), key=lambda event: event.seq)
