"""Members of a group, one process each, by client."""
