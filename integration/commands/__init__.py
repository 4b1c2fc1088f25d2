"""The command line and what it runs: the demo, many seeds, a watched group."""
