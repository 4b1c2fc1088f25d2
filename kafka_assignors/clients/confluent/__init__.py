"""Assignors for confluent-kafka. librdkafka accepts no custom assignors, so two connections act as one group member.

The control plane, a kafka-python consumer, is the group's member: it runs the assignor, sends heartbeats and commits,
but fetches nothing. The data plane is a confluent ``Consumer``; it fetches the partitions that the member owns.

    with BridgedConsumer({"bootstrap.servers": "…", "group.id": "billing"}, [CooperativeStickyAssignor]) as consumer:
        consumer.subscribe(["orders"])
        message = consumer.poll(1.0)

**Guarantee: at least once.** Nothing is committed before the caller has finished it. A message is finished

* when the caller next calls `poll`, `consume` or `commit()`, as with kafka-python and Java;
* when the caller commits this message, or an offset beyond it;
* when the consumer closes normally: by leaving ``with`` without an exception, or by `close` while none is handled.

So a message is not finished if its processing raises, inside ``with`` or before a ``finally`` that closes, nor if
Ctrl-C or an error in a callback ends `consume` before it returns. An interrupt loses no message: a caller that
continues gets the messages that `consume` had. When a partition moves, the next owner reads its unfinished messages.

Differences from a ``Consumer``:

* Each process has two connections to the cluster, and both clients must support its security settings.
* Commits go through the control plane, because the broker accepts none from the data plane, which is not a member. So
  ``send_offsets_to_transaction`` of a confluent producer cannot fence it: no exactly-once across groups. For
  transactions without offsets, `TransactionalProducer` is safe from a late commit.
* The group's work runs during `poll` and `consume`. A rebalance may make them exceed their timeout. More than
  ``max.poll.interval.ms`` between two calls ends the membership, as with any consumer.
* Settings are librdkafka's. Those of the connection (addresses, TLS, SASL, ``oauth_cb``) and of the member are
  translated for the control plane, or rejected by name; use ``control={…}`` then.
* Callbacks run during these calls, on another thread, while the caller waits. They may `commit`, but not `poll`.
"""

from __future__ import annotations

from ...extras import install

try:
    from .consumer import BridgedConsumer
    from .transactions import TransactionalProducer
except ImportError as error:
    raise ImportError(
        f"the bridge for confluent-kafka needs confluent-kafka 2.13 and kafka-python 3.0.12 or newer ({error}); "
        f"install them with: {install('confluent,kafka-python')}"
    ) from error

__all__ = ["BridgedConsumer", "TransactionalProducer"]
