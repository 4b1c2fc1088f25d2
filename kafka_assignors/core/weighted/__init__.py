"""Placement by work: balance within epsilon of a proven bound, then the fewest moves.

`model` (weights -> integers), `bounds` (lower bounds), `search`, `finish` and `exact` (find an assignment), `engine`
(the order of goals), `placing` (the strategy), `hysteresis`, `report` (a plan's figures). `core.wire.weighted` is the
members' user data; `plans.work_proof` checks a plan's claims without any of these modules.
"""
