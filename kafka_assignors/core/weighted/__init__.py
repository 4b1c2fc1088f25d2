"""Placement by work: balance within epsilon of a proven bound, then the fewest moves.

`model` (weights -> integers), `bounds` (lower bounds), `search` and `finish` (find an assignment of any group),
`optimum` (of one that is small enough), `engine` (the order of goals), `placing` (the strategy), `hysteresis`,
`frontier` and `report` (a plan's figures). `core.wire.weighted` is the members' user data; `plans.work_proof` checks a
plan's claims without any of these modules.
"""
