"""The frame of every command: its options, its exit codes, and how it fails."""

from .options import Common, Output
from .running import COULD_NOT_RUN, INTERRUPTED, NAME, NO, UNKNOWN, USAGE, YES, command, guarded

__all__ = [
    "COULD_NOT_RUN",
    "INTERRUPTED",
    "NAME",
    "NO",
    "UNKNOWN",
    "USAGE",
    "YES",
    "Common",
    "Output",
    "command",
    "guarded",
]
