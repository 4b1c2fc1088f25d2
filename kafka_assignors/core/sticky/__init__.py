"""The optimal sticky assignment, and the cooperative hand-over.

This file has the words of its options alone, because a member imports it before it joins.
"""

from __future__ import annotations

from collections.abc import Mapping

GOALS = (
    ("balance", "racks", "moves"),
    ("balance", "moves", "racks"),
    ("spread", "balance", "racks", "moves"),
    ("spread", "balance", "moves", "racks"),
)
"""Valid orders of goals; the first is the default. See `objective.Objective`."""
Matrix = Mapping[str, Mapping[str, float]]
"""Costs between racks: {member rack: {replica rack: cost}}."""
