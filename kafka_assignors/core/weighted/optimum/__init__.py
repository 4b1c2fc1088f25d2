"""The best assignment of a group that is small enough: `trading` finds it, and `branching` proves it in a small group.

No solver is used: among equal assignments the choice is ours, and the same with every version of every library.
"""
