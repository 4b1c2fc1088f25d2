"""Placement by work: balance within epsilon of a proven bound, then the fewest moves.

`model` (weights -> whole numbers), `bounds` (what no assignment beats), `search` and `exact` (find one), `engine` (the
order of goals), `placing` (the strategy), `hysteresis`, `report` (what a plan tells). `core.wire.weighted` is
what members tell, `plans.work_proof` checks a plan's claims without all of these.
"""
