"""The private names of kafka-python that we use, what is lost without each, and whether this version has them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, NamedTuple

import kafka

from ...fact_log import log

VERSION: str = kafka.__version__


def is_at_least(version: str, least: tuple[int, int]) -> bool:
    """Whether a version of kafka-python is at least another, by its first two numbers; a pre-release counts as its own.

    >>> is_at_least("3.1.0.dev", (3, 1)), is_at_least("3.0.12", (3, 1))
    (True, False)
    """
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= least


AWAIT_FOR = "_net.await_for" if is_at_least(VERSION, (3, 1)) else "_manager.wait_for"
"""Waits for a future on kafka-python's own thread, with a time limit in ms. Coordinators and fetchers have it."""


class PrivateName(NamedTuple):
    """One use of a private name: attributes from the coordinator on, joined by dots; and what is lost without it."""

    path: str
    lost: str


_GUARD = "guard() does not work: a fenced or evicted member keeps consuming, and claims partitions that it has lost"
GUARD = (
    *("_handle_heartbeat_response", "_do_join_and_sync_async", "reset_generation"),
    *("ensure_coordinator_ready_async", "_on_join_complete_async", "stable", "_enable_heartbeat", "group_metadata"),
    *("_async_commit_fenced", "_assignors", "_rebalance_protocol", "rejoining", "rebalance_in_progress"),
    *("need_rejoin", "time_to_next_poll", "_on_join_prepare_async"),
    *("_subscription.assign_from_subscribed", "_subscription.assigned_partitions"),
)
_LEARN = "a leader treats topics that only other members read as absent until it has their metadata"
LEARN = (
    *("_manager.send", AWAIT_FOR, "_cluster.request_update", "_cluster.set_topics"),
    *("_subscription.group_subscribe", "_subscription.group_subscription", "config"),
)
_COMMITS = "commits fail while the group rebalances, even for partitions that the member keeps"
COMMITS = (
    *("commit_offsets_sync", "commit_offsets_async", "_on_join_complete_async"),
    *("rebalance_in_progress", "_rebalance_protocol", "group_metadata", "config", "completed_offset_commits"),
    *("coordinator_id", "ensure_coordinator_ready_async", "_net", "_manager.send", "_manager.call_soon", AWAIT_FOR),
    *("_cluster.add_coordinator", "_cluster.broker_metadata"),
    *("_subscription.all_consumed_offsets", "_subscription.assigned_partitions"),
)
_WAITS = "a group waits up to fetch_max_wait_ms for a member that waits for records"
WAITS = ("_net.wait_for" if is_at_least(VERSION, (3, 1)) else "_net", AWAIT_FOR, "need_rejoin")
"""All private names of a coordinator that `Wait` uses; its fetcher has the first two as well."""
_BEATS = "the second round of a cooperative rebalance begins up to heartbeat_interval_ms late"
BEATS = ("heartbeat.time_to_next_heartbeat", "heartbeat.sent_heartbeat", "_heartbeat_wakeup.notify", "config")
_PHASE = "the members of an eager group stop one after the other, at their next heartbeats"
PHASE = (
    *("heartbeat.time_to_next_heartbeat", "heartbeat.sent_heartbeat"),
    *("heartbeat.reset_timeouts", "heartbeat.heartbeat_failed", "config"),
)
_CLOSES = (
    "close() takes up to half a minute during a join that another member holds up, and leaves a ghost in the group"
)
CLOSES = ("_net", "_join_task", "state", "coordinator_id", "_client.close", AWAIT_FOR)
"""All private names that `give_up_join` uses."""
_LEAVE = "leave() closes the consumer at once: the group learns of it by the next heartbeats of its members"
LEAVE = (
    *("_do_join_and_sync_async", "_on_join_complete_async", "_on_close_prepare_async", "reset_generation"),
    *("time_to_next_poll", "need_rejoin", "request_rejoin", "_is_leader", "_disable_heartbeat"),
    *("fetch_committed_offsets", "_subscription.partitions_auto_assigned", *COMMITS),
)
_RETURN = "partitions that are added after a static leader's restart stay unread until another rebalance"
RETURN = ("_process_join_group_response", "_assignment_snapshot", "_metadata_snapshot")
_GIVING = "a member that is closed during a rebalance revokes twice"
GIVING = ("_on_close_prepare_async",)
RECORD = (
    *("group_protocols", "_process_join_group_response", "_perform_assignment", "_process_sync_group_response"),
    *("_on_join_prepare_async", "_on_join_complete_async", "_handle_heartbeat_response", "maybe_leave_group_async"),
    *("_on_close_prepare_async", "close", "group_metadata", "config", "_assignors", "_rebalance_protocol"),
    *("_subscription.assigned_partitions", "_generation.is_lost", "_heartbeat_closed"),
    *("heartbeat.poll_timeout_expired", "coordinator_id", "is_dynamic_member", "state"),
    *("_subscription.subscription", "_subscription.subscribed_pattern"),
)
"""All private names that `recording` uses."""
USED = (
    *(PrivateName(path, _GUARD) for path in GUARD),
    *(PrivateName(path, _COMMITS) for path in COMMITS),
    *(PrivateName(path, _RETURN) for path in RETURN),
    *(PrivateName(path, _GIVING) for path in GIVING),
    PrivateName("_rebalance_protocol", "kafka-python rejects cooperative-sticky beside an eager assignor"),
    PrivateName("_rebalance_protocol", "one assignor instance in two open consumers is not detected"),
    PrivateName("_heartbeat_closed", "one assignor instance in two open consumers is not detected"),
    PrivateName("_subscription.assigned_partitions", "a member claims its last assignment, held or not"),
    PrivateName("group_metadata", "a fenced or evicted member claims partitions that it has lost"),
    PrivateName("request_rejoin", "a leader whose poll ends during a rebalance drops out of its group silently"),
    PrivateName("config", "aiokafka leaders do not learn group_instance_id, and a name listed twice is not detected"),
    PrivateName("_client.close", "if an assignor's constructor raises, the consumer's threads and sockets stay open"),
    *(PrivateName(path, _LEARN) for path in LEARN),
    *(PrivateName(path, _BEATS) for path in BEATS),
    *(PrivateName(path, _PHASE) for path in PHASE),
    *(PrivateName(path, _LEAVE) for path in LEAVE),
    *(PrivateName(path, _WAITS) for path in WAITS),
    *(PrivateName(path, _CLOSES) for path in CLOSES),
    PrivateName("_cluster._partitions", "racks of brokers are unknown: members in a rack get any partition"),
)
"""All private names that we use of a coordinator. We recognise its class by ``group_protocols``, and a consumer has it
as ``_coordinator``. Without these two names an assignor is not attached, and logs a warning (`adapter.Assignor`)."""
warned: set[str] = set()


def warn_once(text: str) -> None:
    """Log a warning once per process, even if it concerns several consumers."""
    if text not in warned:
        warned.add(text)
        log.warning("%s", text)


def check(coordinator: Any) -> None:
    """Warn about each private name that this kafka-python does not have, with the consequences; once per process."""
    lost: dict[str, dict[str, None]] = {}
    for use in USED:
        if name := missing(coordinator, use.path):
            lost.setdefault(name, {})[use.lost] = None
    for name, sentences in lost.items():
        warn_once(without(name, *sentences))


def without(name: str, *lost: str) -> str:
    """The warning that kafka-python does not have a name."""
    return (
        f"kafka-python {VERSION} has no {name!r}, which kafka-assignors uses. Without it: "
        f"{'; '.join(lost)}. Install a newer kafka-assignors, or kafka-python 3.0.12"
    )


def missing(thing: Any, path: str) -> str | None:
    """The first missing name of a path of attributes."""
    for name in path.split("."):
        if not hasattr(thing, name):
            return name
        thing = getattr(thing, name)
    return None


def get(thing: Any, path: str, default: Any) -> Any:
    """The value at a path of attributes; the default if a name is missing."""
    return default if missing(thing, path) else attrgetter(path)(thing)


def lacks_for_meter(coordinator: Any, fetcher: Any) -> list[str]:
    """The names that measuring needs and this kafka-python doesn't have."""
    names = [missing(coordinator, path) for path in ("poll", "_subscription.assignment", "request_rejoin")]
    return [name for name in (*names, missing(fetcher, "fetch_records")) if name]


def lacks(coordinator: Any, needed: Iterable[str]) -> list[str]:
    """The missing names of some paths of attributes, each once."""
    return list(dict.fromkeys(name for path in needed if (name := missing(coordinator, path))))
