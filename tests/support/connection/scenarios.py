"""A scenario short enough to be played once per user."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def short_scenario(folder: Path, *further: Mapping[str, Any], **fields: Any) -> str:
    """A file with a scenario in which records are sent."""
    steps = [{"name": "two join", "actions": [{"join": "m1"}, {"join": "m2"}]}, *further]
    scenario = {"topics": {"orders": 4}, "rate_per_s": 50, "steps": steps, **fields}
    (file := folder / "short.json").write_text(json.dumps(scenario))
    return str(file)
