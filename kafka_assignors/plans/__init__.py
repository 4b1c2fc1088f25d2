"""What a strategy would do with a group, why, and the proof of how good that is."""
