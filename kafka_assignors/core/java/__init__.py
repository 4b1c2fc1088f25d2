"""Java's own answers, for ``parity="java"``."""
