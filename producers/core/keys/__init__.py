"""Placement by key: hashes, presets, columns of keys, hot keys."""
