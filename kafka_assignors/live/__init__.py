"""Live groups, read only: what the cluster and the coordinator's log tell, as values. Nothing is joined or written."""
