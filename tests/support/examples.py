"""How many examples a test draws under each profile of Hypothesis: a test says what CI draws."""

from __future__ import annotations

import os

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
_TIMES = {"dev": 0.2, "fast": 0.2, "ci": 1, "nightly": 20}
"""Profile -> how many of the examples that a test asks for it draws."""


def examples(count: int) -> int:
    """So many in CI; fewer where somebody waits for them, more at night."""
    return max(1, int(count * _TIMES[PROFILE]))
