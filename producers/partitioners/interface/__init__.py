"""kafka-python's ``Partitioner`` interface, a topic's metadata and rule, and what is counted and undone."""
