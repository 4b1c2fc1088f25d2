"""Plans: the assignment of a strategy, the reason for each move, and a proof of its quality."""

from __future__ import annotations

from .plan import Plan, plan, planned
from .sizing import Size, Sizing
from .values import Decision, Goal, Move

__all__ = ["Decision", "Goal", "Move", "Plan", "Size", "Sizing", "plan", "planned"]
