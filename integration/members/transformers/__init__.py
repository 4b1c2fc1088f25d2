"""Members that consume, transform and produce exactly once: each batch is a transaction with its outputs and offsets.

An output has its input's key and value, by which law X1 knows it, and a header, `AUTHOR`, by which X2 does. Of each
client there is one; all take these settings beside their client's own:

===============  =====================================================================================================
``app_work_ms``  how long a member works on a batch, between its outputs and its commit (default 0)
===============  =====================================================================================================

The membership that fences a zombie (KIP-447) is that of the moment when the records were returned: a client that finds
out meanwhile that it was evicted forgets its generation, and a broker fences nobody who names none.
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
