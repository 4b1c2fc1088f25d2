"""Strategies that ignore previous assignments: one file per strategy."""
