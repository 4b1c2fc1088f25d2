"""A consumer found on the call stack, its settings, and whether it is open."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import Any

import kafka
from kafka.errors import KafkaError

from ....errors import ConfigError
from .names import VERSION, get


def calling_coordinator() -> Any:
    """The ``ConsumerCoordinator`` that calls an assignor: while its consumer is created, joins the group or leads it.

    None if it is not on the call stack of this thread.
    """
    return next((this for this in _callers() if hasattr(type(this), "group_protocols")), None)


def calling_fetcher() -> Any:
    """The fetcher, which hands out records, of the consumer that is made, joins or polls; None if not on the stack."""
    return next((fetcher for this in _callers() if (fetcher := getattr(this, "_fetcher", None)) is not None), None)


def fetcher_of(consumer: Any) -> Any:
    """A consumer's fetcher, which hands out its records; None if it isn't known."""
    return get(consumer, "_fetcher", None)


def calling_client_rack() -> str | None:
    """The ``client_rack`` of the consumer that is being created. kafka-python itself sends it only with fetches."""
    for this in _callers():
        config = getattr(this, "config", None)
        if isinstance(config, Mapping) and "partition_assignment_strategy" in config:
            return config.get("client_rack") or None
    return None


def _callers() -> Iterable[Any]:
    """The objects whose methods are on the call stack, innermost first. No class check: tests may replace classes."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if (this := frame.f_locals.get("self")) is not None:
            yield this
        frame = frame.f_back


def coordinator_of(consumer: Any) -> Any:
    """A consumer's coordinator; raises `ConfigError` unless it is a ``KafkaConsumer`` of a supported version."""
    if (coordinator := get(consumer, "_coordinator", None)) is None:
        given = f"the class {consumer.__name__}" if isinstance(consumer, type) else type(consumer).__name__
        raise ConfigError(
            f"{given} has no coordinator; pass a KafkaConsumer of kafka-python 3.0.12 (installed: "
            f"kafka-python {VERSION})"
        )
    return coordinator


def is_open(coordinator: Any) -> bool:
    """Whether the coordinator's consumer is fully created and not closed."""
    made = get(coordinator, "_rebalance_protocol", None) is not None
    return made and not get(coordinator, "_heartbeat_closed", True)


def close_half_made(coordinator: Any) -> None:
    """Close the resources of a consumer whose constructor is about to raise; its caller never gets the consumer.

    A consumer opens its client, with a thread and three file descriptors, before it calls its assignors.
    """
    if get(coordinator, "_rebalance_protocol", None) is not None:
        return  # the consumer is complete and is joining
    metrics = get(coordinator, "config", {}).get("metrics")
    for close in (get(metrics, "close", None), get(coordinator, "_client.close", None)):
        if close is not None:
            close()


def listed_twice(coordinator: Any) -> str | None:
    """A name that two entries of the consumer's ``partition_assignment_strategy`` share, or None.

    kafka-python would use the last of them and drop the other silently. Entries without a name are skipped.
    """
    seen: set[str] = set()
    for name in _names(get(coordinator, "config", {}).get("assignors", ())):
        if name in seen:
            return name
        seen.add(name)
    return None


def _names(entries: Iterable[Any]) -> Iterable[str]:
    for entry in entries:
        name = getattr(getattr(entry, "func", entry), "name", None)  # a partial has its class in `func`
        if isinstance(name, str):
            yield name


def instance_id(coordinator: Any) -> str | None:
    """The ``group_instance_id`` of a static member."""
    group_instance_id: str | None = get(coordinator, "config", {}).get("group_instance_id")
    return group_instance_id


def is_retriable(error: KafkaError) -> bool:
    """Whether kafka-python calls an error retriable: a broker that is away, metadata that are not known yet."""
    return bool(getattr(error, "retriable", False))


RECONNECT_MAX_MS = 1000
"""Default of Java's ``reconnect.backoff.max.ms``."""


def cap_reconnects(coordinator: Any) -> None:
    """Make a consumer try at least once in `RECONNECT_MAX_MS` to reach a broker, unless its user chose another limit.

    kafka-python's default for ``reconnect_backoff_max_ms``, 30 s, lets a consumer go on without a broker that has been
    back for a long time. A user who sets that same value can't be told from one who sets none.
    """
    config = get(coordinator, "_manager.config", {})
    if config.get("reconnect_backoff_max_ms") == kafka.KafkaConsumer.DEFAULT_CONFIG["reconnect_backoff_max_ms"]:
        config["reconnect_backoff_max_ms"] = max(RECONNECT_MAX_MS, config["reconnect_backoff_ms"])


def backoff_s(coordinator: Any) -> float:
    """The consumer's ``retry_backoff_ms``, in seconds."""
    return float(get(coordinator, "config", {}).get("retry_backoff_ms", 100)) / 1000


def default_callback(coordinator: Any) -> Callable[[Any, Any], None]:
    """The callback of an asynchronous commit that has no callback."""
    return get(coordinator, "config", {}).get("default_offset_commit_callback") or (lambda _offsets, _answer: None)


def assignors(coordinator: Any) -> Iterable[Any]:
    """The assignors of the coordinator's consumer."""
    return tuple(coordinator._assignors.values())


def forbid_topic_creation(consumer: Any) -> None:
    """Stop a new ``KafkaConsumer`` from creating topics with its metadata requests on brokers that auto-create topics.

    kafka-python 3.0.12 accepts ``allow_auto_create_topics=False`` but does not pass it to its metadata requests.
    """
    consumer._client.cluster.config["allow_auto_create_topics"] = False


def is_closed(consumer: Any) -> bool:
    """Whether a consumer was closed."""
    return bool(get(consumer, "_closed", False))


def polls(consumer: Any) -> bool:
    """Whether a thread is in this consumer's ``poll`` (or ``consume``), also below a signal handler of that thread."""
    for frame in sys._current_frames().values():
        stack_frame: FrameType | None = frame
        while stack_frame is not None:
            if stack_frame.f_code.co_name in ("poll", "consume") and stack_frame.f_locals.get("self") is consumer:
                return True
            stack_frame = stack_frame.f_back
    return False


def forget_iterator(consumer: Any) -> None:
    """Drop the records that a ``for`` loop over the consumer has fetched and not handed out: they are polled again."""
    consumer._iterator = None


def commits_by_itself(coordinator: Any) -> bool:
    """Whether the consumer has ``enable_auto_commit``."""
    return bool(coordinator.config["enable_auto_commit"])


def request_timeout_ms(coordinator: Any) -> float:
    """The consumer's ``request_timeout_ms``."""
    return float(coordinator.config["request_timeout_ms"])


def stop_auto_commits(coordinator: Any) -> None:
    """From now on, commit only when asked to."""
    coordinator.config["enable_auto_commit"] = False
