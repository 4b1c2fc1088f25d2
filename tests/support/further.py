"""Parameters of which `make test` has the first, and `make test-release` the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def further(names: Iterable[str]) -> list[Any]:
    """The first name as it is, the others marked ``release``."""
    first, *others = names
    return [first, *(pytest.param(name, marks=pytest.mark.release(f"{first} is played")) for name in others)]
