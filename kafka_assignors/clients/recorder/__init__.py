"""What records a service's own consumer, the same for every client: a member's events, and how they leave the process.

Nothing here runs where records are read: a client calls it when its member joins, adopts an assignment, gives
partitions up or leaves.
"""
