"""Results of runs as text, HTML and timelines."""
