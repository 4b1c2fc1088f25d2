"""Strategies without history: one file per strategy."""
