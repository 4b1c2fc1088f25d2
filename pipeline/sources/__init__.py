"""Topics, histories and the coordinator's log as DataFrames."""
