"""The optimal sticky assignment, and the cooperative hand-over."""
