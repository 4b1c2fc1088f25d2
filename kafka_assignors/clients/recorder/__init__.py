"""What records a service's own consumer, the same for every client: a member's events, and how they leave the process.

Nothing here runs where records are read: clients call it when a member joins, adopts, gives partitions up or leaves.
"""
