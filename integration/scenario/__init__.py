"""Scenarios: what happens to a group, step by step."""

from __future__ import annotations

from .catalogue import DEMO_TOPICS, SCENARIOS, Scenario, Step, scenario

__all__ = ["DEMO_TOPICS", "SCENARIOS", "Scenario", "Step", "scenario"]
