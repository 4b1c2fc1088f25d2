"""Assignors for confluent-kafka, whose librdkafka takes none from outside: two connections that act as one member.

The control plane is a kafka-python consumer: it is the group's member, runs the assignor, sends heartbeats, commits,
and fetches nothing. The data plane is a confluent ``Consumer`` that is assigned what the member owns, and fetches.

    with BridgedConsumer({"bootstrap.servers": "…", "group.id": "billing"}, [CooperativeStickyAssignor]) as consumer:
        consumer.subscribe(["orders"])
        message = consumer.poll(1.0)

**The promise: at least once.** Nothing is committed that the caller hasn't finished. A message is finished

* when the caller next calls `poll`, `consume` or `commit()`, as with kafka-python and Java;
* when it commits this message, or an offset beyond it, itself;
* when it closes in order: by leaving ``with`` without an exception, or by `close` while no exception is handled.

So a message isn't finished when its processing raises, inside ``with`` or before a ``finally`` that closes, nor when
Ctrl-C or an error of a callback ends `consume` before it returns. An interrupt loses no message: a caller that goes on
gets what `consume` had when it was interrupted. What isn't finished when its partition goes is read by the next owner.

What is different from a ``Consumer``:

* Each process has two connections to the cluster, and both clients must support its security settings.
* Commits go through the control plane: the broker takes none from the data plane, which is no member. So
  ``send_offsets_to_transaction`` of a confluent producer can't fence it: no exactly-once across groups.
* The group's work is done during `poll` and `consume`. A rebalance may take them longer than their timeout, and
  ``max.poll.interval.ms`` between two calls ends the membership, as with any consumer.
* Settings are librdkafka's. What reaches the cluster (addresses, TLS, SASL, ``oauth_cb``) and what makes the member is
  translated for the control plane; what can't be is refused by its name, and ``control={…}`` takes its place.
* Callbacks run during these calls, on a thread of kafka-python's, while the caller waits; they may `commit`, not
  `poll`.
"""

from __future__ import annotations

try:
    from .consumer import BridgedConsumer
except ImportError as error:
    raise ImportError(
        f"the bridge for confluent-kafka needs confluent-kafka 2.13 and kafka-python 3.0.12 or newer ({error}); "
        "install them with: pip install 'kafka-assignors[confluent,kafka-python]'"
    ) from error

__all__ = ["BridgedConsumer"]
