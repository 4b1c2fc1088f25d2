"""Sends the records of a run and reads them back."""

from __future__ import annotations

from .sender import Record, Sender, read_back, send

__all__ = ["Record", "Sender", "read_back", "send"]
