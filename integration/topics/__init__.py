"""Topics of a run: making and changing them, what a run may write to, and its events on a topic."""

from .topics import LOSSY, NO_OPTIONS, STAMPED, Options, Topics, create_topics

__all__ = ["LOSSY", "NO_OPTIONS", "STAMPED", "Options", "Topics", "create_topics"]
