"""Codecs for events of a group and the coordinator's log: bytes and JSON lines <-> values."""
