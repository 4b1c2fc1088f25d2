"""The broker's own assignors of KIP-848 groups, ``uniform`` and ``range``, as pure functions.

The broker assigns by topic ids and lists members and topics in the order of Java's hash maps, so both decide ties here.
"""
