"""Topics of a run: making and changing them, what a run may write to, and its events on a topic."""

from .topics import LOSSY, Topics, create_topics

__all__ = ["LOSSY", "Topics", "create_topics"]
