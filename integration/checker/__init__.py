"""The checker: a pure function from a history to a verdict with witnesses."""

from __future__ import annotations

from .verdict import LAWS, Interval, Verdict, Violation, check, intervals, known_laws

__all__ = ["LAWS", "Interval", "Verdict", "Violation", "check", "intervals", "known_laws"]
