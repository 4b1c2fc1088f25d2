"""VerifiableConsumer's JSON lines on standard output, for members that are read through a pipe."""

from __future__ import annotations

import json
import time
from typing import Any


def say(name: str, **fields: Any) -> None:
    """Print one whole line and flush it before the member continues."""
    print(json.dumps({"timestamp": time.time_ns() // 1_000_000, "name": name, **fields}) + "\n", end="", flush=True)


def text(data: bytes | None) -> str | None:
    """Decode a key or value like Java's StringDeserializer."""
    return None if data is None else data.decode(errors="replace")
