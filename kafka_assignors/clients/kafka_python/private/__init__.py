"""Access to the private parts of kafka-python. No other room uses its private names.

kafka-python passes an assignor neither its consumer nor the rebalance protocol in force. The consumer's coordinator
calls the assignor, so we find it on the call stack, and reach everything else through it.

`names.USED` lists each private name with the consequence of its absence. `names.check` warns once about names that
this version does not have. This room's functions then fall back to the safest answer; none raises `AttributeError`.
"""

from __future__ import annotations

from . import beating, consumer, joining, learning, membership, names, recorded, requests, waiting, wrapping

__all__ = [
    "beating", "consumer", "joining", "learning", "membership", "names", "recorded", "requests", "waiting", "wrapping",
]  # fmt: skip
