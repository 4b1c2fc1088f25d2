"""Members that consume, transform and produce exactly once: a batch's outputs and offsets are one transaction.

An output has the key and value of its input, by which law X1 identifies it, and a header, `AUTHOR`, for law X2. Each
client has its own transforming member. All of them take this setting beside their client's own:

===============  =====================================================================================================
``app_work_ms``  how long a member works on a batch, between its outputs and its commit (default 0)
===============  =====================================================================================================

The membership that fences a zombie (KIP-447) is read when the records are returned. A client that learns of its
eviction forgets its generation, and a broker doesn't fence a member without one.
"""

from __future__ import annotations

import json

from ..config import MemberConfig

WORK_MS = "app_work_ms"
TRANSACTION_TIMEOUT_MS = 20_000
"""More than a session: a zombie must be fenced, not timed out."""


def author(config: MemberConfig, transaction: int) -> bytes:
    """The header of an output."""
    named = {"group": config.group, "member": config.member, "incarnation": config.incarnation}
    return json.dumps({**named, "transaction": transaction}).encode()
