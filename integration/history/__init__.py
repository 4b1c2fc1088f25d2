"""The history of a run: written by every process, sealed by a manifest, read back as events."""

from __future__ import annotations

from .read import History
from .uncollected import uncollected

__all__ = ["History", "uncollected"]
