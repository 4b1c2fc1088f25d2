"""The frame of every command: its options, its exit codes, and how it fails."""

from .options import Common, Output, Places, topics
from .running import COULD_NOT_RUN, INTERRUPTED, NAME, NO, UNKNOWN, USAGE, YES, command, guarded

__all__ = [
    "COULD_NOT_RUN", "INTERRUPTED", "NAME", "NO", "UNKNOWN", "USAGE", "YES", "Common", "Output", "Places", "command",
    "guarded", "topics",
]  # fmt: skip
