"""What a recorder reads of a coordinator: the consumer's settings, why its member leaves, and where to send events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError, for_code
from kafka.structs import MemberState

from .membership import is_cooperative

_SECURITY = ("bootstrap_servers", "client_dns_lookup", "proxy_url", "socks5_proxy")
_LIMIT_MS = 10_000


def settings(coordinator: Any) -> Mapping[str, Any]:
    """The coordinator's configuration."""
    config: Mapping[str, Any] = coordinator.config
    return config


def client_id(consumer: Any) -> str:
    """The client id that a consumer sends."""
    return str(consumer.config["client_id"])


def subscription(coordinator: Any) -> tuple[list[str], str | None]:
    """To which topics a consumer subscribes now, and by which pattern; None: by name."""
    state = coordinator._subscription
    pattern = None if state.subscribed_pattern is None else str(state.subscribed_pattern.pattern)
    return sorted(state.subscription or ()), pattern


def is_lost(coordinator: Any) -> bool:
    """Whether the member has learned that it is no longer in its generation."""
    return bool(coordinator._generation.is_lost())


def revoked_before_join(coordinator: Any, owned: frozenset[Any]) -> frozenset[Any]:
    """What a member that has prepared a join gave up for it: an eager one everything."""
    return owned - frozenset(coordinator._subscription.assigned_partitions()) if is_cooperative(coordinator) else owned


def reason_to_leave(coordinator: Any) -> str | None:
    """Why the member sends a LeaveGroup request now; None if it sends none."""
    sends = (
        coordinator.is_dynamic_member()
        and coordinator.coordinator_id is not None
        and coordinator.state is not MemberState.UNJOINED
        and coordinator._generation.has_member_id()
    )
    if not sends:
        return None
    if coordinator._heartbeat_closed:
        return "its consumer was closed"
    if coordinator.heartbeat.poll_timeout_expired():
        limit_s = coordinator.config["max_poll_interval_ms"] / 1000
        return f"it did not poll for max_poll_interval_ms ({limit_s:g} s)"
    return "it unsubscribed"


def error_of(response: Any) -> str:
    """The name of a response's error, such as ``UnknownMemberIdError``; "" without one."""
    return for_code(response.error_code).__name__ if response.error_code else ""


class EventProducer:
    """Sends values to a topic, which it does not create, over a connection like that of a consumer.

    Its key is the group's name, so that the events of a group stay in order.
    """

    def __init__(self, consumer: Any, topic: str, key: str) -> None:
        given = consumer.config
        same = [name for name in given if name in _SECURITY or name.startswith(("security_", "ssl_", "sasl_"))]
        ours = {"acks": 1, "enable_idempotence": False, "max_block_ms": _LIMIT_MS, "delivery_timeout_ms": _LIMIT_MS,
                "request_timeout_ms": _LIMIT_MS, "metrics_enabled": False}  # fmt: skip
        names = KafkaProducer.DEFAULT_CONFIG
        self._producer = KafkaProducer(
            client_id=f"{given['client_id']}-record",
            **{name: given[name] for name in same if name in names},
            **{name: value for name, value in ours.items() if name in names},
        )
        # kafka-python 3.0.12 takes allow_auto_create_topics and does not pass it on.
        self._producer._metadata.config["allow_auto_create_topics"] = False
        self._topic, self._key = topic, key.encode()
        self._sent: list[Any] = []

    def send(self, value: bytes) -> None:
        """Send a record; raises KafkaError if the topic isn't there."""
        self._sent.append(self._producer.send(self._topic, value=value, key=self._key))

    def flush(self) -> None:
        """Wait for the brokers' answers; raises KafkaError if one refuses, or none comes."""
        sent, self._sent = self._sent, []
        self._producer.flush(timeout=_LIMIT_MS / 1000)
        for future in sent:
            if (error := future.exception) is not None:
                raise error if isinstance(error, KafkaError) else KafkaError(str(error))
