"""The laws of a run, each a function of the run's record that tells what breaks it. Pure.

====  ======================================================================================================
O1    one owner in time: intervals of one topic-partition at different processes never overlap
O2    one owner per generation: no committed generation gives a topic-partition to two members
O3    coverage: a generation that stays holds every partition of the subscribed topics, each at a subscriber
O4    no topic-partition is without an owner for longer than its step allows
G1    committed generations grow; epochs of KIP-848 never fall
G2    agreement: what a member adopted is what the coordinator log gave it
G3    the elected assignor is offered by all members, and is the one that the vote gives
G4    adopted in time and in order: after its commit, before the group is left standing, never an older one again
R1    revoke before assign: the old owner has given a partition up before the new one gets it
R2    cooperative hand-over: what a member says it owns, and does, is given to nobody else
R3    no needless revoke: cooperative members keep through one trigger what they have before and after it
R4    fewest moves: our sticky assignors move no more than balance needs
R5    few rounds: one trigger takes one generation, two under a cooperative assignor, a broker's restart none
R6    true claims: what a member says it owns as it joins is what it owns
R7    what a member lost it is told as lost, not as something to revoke
R8    callbacks give a member what its generation gave it, all of that and nothing else
P1    progress: what is given is owned by callback at each rest; no partition stays without an owner that lives
E1    a process that ends was asked to
C1    only owners consume
C2    an owner begins at the committed offset, never goes back, leaves no record out
C3    nothing acknowledged is lost: once a group is drained, every acknowledged record was consumed
C4    duplicates are bounded: what was committed isn't consumed again by the next owner
C5    committed offsets never fall, aren't ahead of what was consumed, and come from owners
C6    every record below a committed offset was finished by an application, where members tell that
X1    each input record has exactly one committed output, where members transform
X2    no output of a zombie is read with read_committed
S1    a static member that is back within its session has its partitions, and nobody else notices
S2    a fenced static member consumes and commits nothing more
T1    a dead member is missed when its session ends and not before, one that leaves at once
T2    one that doesn't poll is missed when its poll interval ends
T3    a topic that came, grew or went is in the assignment a second after metadata may be that old
A1    replay: a committed assignment is what our core computes from the same bytes, if the leader ran ours
K1    placement: what the rule demands = chosen = acknowledged = read back, nothing acknowledged is missing or lost
K2    order: records of one key from one producer lie in the order in which they were sent
====  ======================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ledger import GroupRecord, RunRecord
from ..transitions import Transition, transitions
from . import exactly_once, finished, generations, ownership, progress, records, rests, static
from .findings import Findings, Violation

__all__ = ["LAWS", "Findings", "Violation", "judge_group", "judge_records"]

LAWS = (
    *("O1", "O2", "O3", "O4", "G1", "G2", "G3", "G4", "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8"),
    *("P1", "E1"),
    *("C1", "C2", "C3", "C4", "C5", "C6", "X1", "X2", "S1", "S2", "T1", "T2", "T3", "A1", "K1", "K2"),
)

_OF_GROUPS: Sequence[Callable[[GroupRecord, Findings], None]] = (
    ownership.one_owner_in_time,
    generations.one_owner_per_generation,
    generations.coverage,
    ownership.gap,
    generations.generations_grow,
    generations.epochs_never_fall,
    generations.agreement,
    generations.elected_protocol,
    generations.replay,
    ownership.handed_over,
    ownership.true_claims,
    ownership.told_as_lost,
    records.consumed_by_owner,
    records.commits,
    static.unnoticed_restart,
    static.fenced,
    progress.progress,
    progress.adoption,
    progress.held_as_given,
    progress.asked_to_end,
)
_OF_CHANGES: Sequence[Callable[[Transition, Findings], None]] = (
    rests.needless_revokes,
    rests.fewest_moves,
    rests.few_rounds,
    rests.noticed_in_time,
    rests.topics_noticed,
)


def judge_group(record: GroupRecord, run: RunRecord, found: Findings) -> None:
    """All laws of one group."""
    for law in _OF_GROUPS:
        law(record, found)
    for transition in transitions(record):
        for rule in _OF_CHANGES:
            rule(transition, found)
    runs = records.runs_of_spans(record)
    records.contiguous(record, runs, run.acks, found)
    finished.commits_what_is_finished(record, run, found)
    records.nothing_lost(record, runs, run.acks, found)
    exactly_once.one_output_each(record, run, found)
    exactly_once.no_zombies(record, run, found)


def judge_records(run: RunRecord, found: Findings) -> None:
    """All laws of the records that were sent."""
    records.placement(run, found)
    records.in_order(run, found)
