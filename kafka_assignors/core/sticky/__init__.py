"""The optimal sticky assignment and its hand-over. A member imports this before it joins: it has constants alone."""

from __future__ import annotations

from collections.abc import Mapping

GOALS = (
    ("balance", "racks", "moves"),
    ("balance", "moves", "racks"),
    ("spread", "balance", "racks", "moves"),
    ("spread", "balance", "moves", "racks"),
)
"""Valid orders of goals (`objective.Objective`); the first is the default."""
Matrix = Mapping[str, Mapping[str, float]]
"""Costs between racks: {member rack: {replica rack: cost}}."""
