"""Processes that end with the harness."""
