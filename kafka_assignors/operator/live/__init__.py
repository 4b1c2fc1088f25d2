"""Live groups, read only: data of the cluster and the coordinator's log as values. Joins no group, writes nothing."""
