"""kafka-python's ``Partitioner`` interface, with a topic's metadata and rule, counters and undo."""
