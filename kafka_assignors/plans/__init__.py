"""What a strategy would do with a group, why, and the proof of how good that is."""

from __future__ import annotations

from .plan import Plan, plan, planned
from .values import Decision, Goal, Move

__all__ = ["Decision", "Goal", "Move", "Plan", "plan", "planned"]
