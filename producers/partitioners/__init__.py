"""The partitioners, behind kafka-python's interface."""
