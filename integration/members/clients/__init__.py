"""The member processes, one client per file."""
