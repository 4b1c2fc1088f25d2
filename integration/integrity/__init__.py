"""Whether a run's folder is whole and what it says can be believed: its manifest, its lines' schema, its clocks."""
