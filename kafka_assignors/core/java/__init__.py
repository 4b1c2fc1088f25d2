"""The exact assignments of Kafka's Java client, for ``parity="java"``."""
