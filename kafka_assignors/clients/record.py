"""``record``: two lines in a service, and its members' joins, assignments and stops are on record."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from .recorder.otel import OTEL, OtelSink
from .recorder.sender import EventSender
from .recorder.sinks import FileSink, TopicSink

Callback = Callable[[Any, Any], Any]

_senders: dict[str, EventSender] = {}
_lock = threading.Lock()


def record(
    consumer: Any, to: str | os.PathLike[str], *, on_assign: Callback | None = None, on_revoke: Callback | None = None,
    on_lost: Callback | None = None,
) -> dict[str, Callback]:  # fmt: skip
    """Record what a consumer does in its group, for ``kafka-assignors why GROUP --from``.

    ::

        consumer = KafkaConsumer("orders", group_id="billing", …)
        kafka_assignors.record(consumer, to="/var/log/billing-group")

    Recorded are joins, assignments, revocations, losses and stops, with the reason as the client knows it; and, by the
    member that leads, what all members sent and were assigned. No record's key or value, no offset, no setting but the
    group's timeouts is. The consumer works as before: the same answers, exceptions and order. What the recorder can't
    write is lost, and said once in the log of ``kafka_assignors``.

    Call it before the first ``poll``, for each consumer of the group: members that don't record are known only while
    one that does leads.

    A ``Consumer`` of confluent-kafka can't be wrapped: give what is returned to its ``subscribe``. Less is recorded of
    it: not who leads, nor what it sent to join, nor its close::

        consumer.subscribe(["orders"], **kafka_assignors.record(consumer, to="/var/log/billing-group"))

    Args:
        consumer: A ``KafkaConsumer`` of kafka-python, an ``AIOKafkaConsumer`` of aiokafka (before its ``start``), a
            ``Consumer`` of confluent-kafka, or a `kafka_assignors.confluent.BridgedConsumer`; with a group.
        to: A folder: each process appends to a file of its own in it, ``HOST.PID.jsonl``, of at most 64 MiB with the
            one before. Or ``"topic:NAME"``: a topic that exists, on the consumer's cluster; the consumer's user needs
            the right to write to it. aiokafka's and confluent-kafka's are recorded to no topic. Or ``"otel:"``: log
            records of OpenTelemetry, by the logger provider that the service has set (extra ``otel``).
        on_assign: The service's own callback, of a ``Consumer`` of confluent-kafka.
        on_revoke: The same.
        on_lost: The same.

    Returns:
        Callbacks for ``subscribe`` of a ``Consumer`` of confluent-kafka; nothing for others.

    Raises:
        ConfigError: Not such a consumer, or one with ``group.protocol=consumer`` (KIP-848), or not such a destination.

    Cost: nothing per record; about 0.1 ms on the client's threads per rebalance, and a thread that waits.
    """
    from ..history.events import TOPIC

    where, callbacks = os.fspath(to), {"on_assign": on_assign, "on_revoke": on_revoke, "on_lost": on_lost}
    if not isinstance(where, str) or not where or where == TOPIC or (where.startswith(OTEL) and where != OTEL):
        raise ConfigError(f"record: to={to!r} is no folder, no 'topic:NAME', and not {OTEL!r}")
    modules = {cls.__module__.partition(".")[0] for cls in type(consumer).__mro__}
    if modules & {"confluent_kafka", "cimpl"}:
        _require_folder(where, "a Consumer of confluent-kafka")
        from . import confluent_recording

        return confluent_recording.recording_callbacks(consumer, _sender_to(where), callbacks)
    if unknown := sorted(name for name, callback in callbacks.items() if callback is not None):
        raise ConfigError(f"record: {', '.join(unknown)}: only a Consumer of confluent-kafka has callbacks here")
    if "aiokafka" in modules:
        _require_folder(where, "an AIOKafkaConsumer")
        from . import aiokafka_recording

        aiokafka_recording.record_consumer(consumer, _sender_to(where))
        return {}
    if "kafka_assignors" in modules:
        consumer = getattr(consumer, "_control", consumer)  # of a bridge: the group's member
    from .kafka_python import recording

    if where.startswith(TOPIC):  # each consumer's own: it may be of another cluster
        sender = EventSender(TopicSink(recording.producer_of(consumer, where.removeprefix(TOPIC))))
    else:
        sender = _sender_to(where)
    recording.record_consumer(consumer, sender)
    return {}


def _require_folder(where: str, whose: str) -> None:
    from ..history.events import TOPIC

    if where.startswith(TOPIC):
        raise ConfigError(f"record: to={where!r}: {whose} is recorded to a folder or to {OTEL!r}, not to a topic")


def _sender_to(where: str) -> EventSender:
    """The sender of this process to a folder, or to OpenTelemetry."""
    with _lock:
        name = where if where == OTEL else str(Path(where).absolute())
        if name not in _senders:
            _senders[name] = EventSender(OtelSink() if name == OTEL else FileSink(Path(name)))
        return _senders[name]
