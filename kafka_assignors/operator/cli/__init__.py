"""The command ``kafka-assignors``. Its modules import what they need when a command runs: help must come at once."""
