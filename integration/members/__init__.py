"""Programs that are members of a group, a process each, by the client that they run."""
