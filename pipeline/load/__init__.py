"""Load per partition and key: measured, predicted, written as weights."""
