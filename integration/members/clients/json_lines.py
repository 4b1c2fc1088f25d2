"""VerifiableConsumer's JSON lines on standard output, as members print them that are read through a pipe."""

from __future__ import annotations

import json
import time
from typing import Any


def say(name: str, **fields: Any) -> None:
    """One line, out whole and before anything is done about it."""
    print(json.dumps({"timestamp": time.time_ns() // 1_000_000, "name": name, **fields}) + "\n", end="", flush=True)


def text(data: bytes | None) -> str | None:
    """A key or a value as Java's StringDeserializer reads it."""
    return None if data is None else data.decode(errors="replace")
