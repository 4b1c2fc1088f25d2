"""The laws of a run. Each is a function of the run's record that reports violations. Pure.

====  ======================================================================================================
O1    one owner in time: intervals of one topic-partition at different processes never overlap
O2    one owner per generation: no committed generation assigns a topic-partition to two members
O3    coverage: a generation that stays assigns every partition of the subscribed topics to a subscriber
O4    no topic-partition is without an owner for longer than its step, or a planned change, allows
G1    committed generations grow; the epochs of KIP-848 never fall
G2    agreement: a member adopts exactly the assignment in the coordinator log
G3    the elected assignor is offered by all members and wins the vote
G4    adoption: after the commit, before the group is stable, and never an older generation again
G5    members, their leader and the coordinator tell the same of a generation
R1    revoke before assign: the old owner has revoked a partition before the new owner gets it
R2    cooperative hand-over: a partition that a member claims and owns is assigned to no other member
R3    no needless revoke: a cooperative member keeps the partitions that it has before and after one trigger
R4    fewest moves: our sticky assignors move no more partitions than balance needs
R5    few rounds: a trigger takes one generation, two if cooperative; a broker's restart takes none
R6    true claims: a joining member claims exactly the partitions that it owns
R7    losses are reported as lost, not as revoked
R8    callbacks assign exactly the partitions that the generation assigns
P1    progress: when the group is stable, assigned partitions are owned; none stays without a living owner
E1    a process ends only when asked to
E2    each process has one start and one end, each fault its end
C1    a member consumes only partitions that it owns
C2    an owner begins at the committed offset, never goes back and skips no record
C3    no acknowledged record is lost: once a group is drained, all of them were consumed
C4    duplicates are bounded: the next owner does not consume committed records again
C5    committed offsets never fall, are not ahead of consumption, and come from owners
C6    an application finished every record below a committed offset, where members report that
C7    members' commits are those of the coordinator log
X1    each input record has its committed output, and only one unless members promise at least one
X2    read_committed shows no output of an aborted transaction, nor of a zombie
X3    a service's offset is committed once the broker has the outputs of all records before it
S1    a static member that returns within its session keeps its partitions, and no other member notices
S2    a fenced static member consumes and commits nothing more
T1    a dead member is removed when its session ends and not before, a leaving member at once
T2    a member that stops polling is removed when its poll interval ends
T3    a created, grown or deleted topic is reflected in the assignment within the metadata age plus a second
A1    replay: a committed assignment equals what our core computes from the same bytes, if the leader ran ours
K1    placement: the partition demanded = chosen = acknowledged = read back, and no acknowledged record is lost
K2    order: records of one key from one producer lie in the order in which they were sent
K3    a record has one place, a place one record, and nobody reads what nobody sent
====  ======================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ledger import GroupRecord, RunRecord
from ..transitions import Transition, transitions
from . import exactly_once, finished, generations, ownership, progress, records, rests, static
from .findings import Findings, Violation
from .witnesses import callbacks, commits, epochs, outputs, places, processes, roles

__all__ = ["LAWS", "Findings", "Violation", "judge_group", "judge_records"]

LAWS = (
    *("O1", "O2", "O3", "O4", "G1", "G2", "G3", "G4", "G5", "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8"),
    *("P1", "E1", "E2"),
    *("C1", "C2", "C3", "C4", "C5", "C6", "C7", "X1", "X2", "X3", "S1", "S2", "T1", "T2", "T3", "A1", "K1", "K2", "K3"),
)

NOTHING = {
    **dict.fromkeys(LAWS, "the history has no event that it judges"),
    "O1": "no partition changed its owner",
    "R1": "no partition was revoked and assigned to another member",
    "C3": "the group was never drained, or no record was sent",
    "C4": "no partition changed its owner with records consumed and not committed",
    "C6": "members do not report finished records",
    "C7": "members do not report their commits",
    "X1": "no member transforms",
    "X2": "no member transforms",
    "X3": "no service has an output topic",
    "S1": "no static member returned",
    "S2": "no static member's instance id was taken",
    "T1": "no member left, was killed or paused in a stable group",
    "T2": "no member stopped polling",
    "T3": "no topic changed",
    "R6": "no member had to give up a partition and stay",
    "K2": "no key was sent twice",
    "K3": "no record was sent",
}
"""Law -> why a history of a KIP-848 group may have nothing for it."""

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
    roles.joined_as_configured,
    roles.one_leader,
    roles.adopted_as_elected,
    roles.one_id_each,
    epochs.members_as_configured,
    epochs.records_follow,
    callbacks.of_their_generation,
    callbacks.lost_for_a_reason,
    processes.every_start_has_its_end,
    processes.nothing_after_fatal,
    processes.faults_end,
    commits.each_answered,
    commits.commits_agree,
    commits.own_reading,
    outputs.one_transaction_at_a_time,
)
_OF_CHANGES: Sequence[Callable[[Transition, Findings], None]] = (
    rests.needless_revokes,
    rests.fewest_moves,
    rests.few_rounds,
    rests.noticed_in_time,
    rests.topics_noticed,
)


def judge_group(record: GroupRecord, run: RunRecord, findings: Findings) -> None:
    """Judge all laws of one group."""
    for law in _OF_GROUPS:
        law(record, findings)
    for transition in transitions(record):
        for rule in _OF_CHANGES:
            rule(transition, findings)
    runs = records.runs_of_spans(record)
    records.contiguous(record, runs, run.acked, findings)
    finished.commits_what_is_finished(record, run, findings)
    records.nothing_lost(record, runs, run.acked, findings)
    exactly_once.one_output_each(record, run, findings)
    exactly_once.no_zombies(record, run, findings)
    exactly_once.outputs_before_commits(record, run, findings)
    exactly_once.outputs_in_order(record, run, findings)
    outputs.outputs_of_committed_inputs(record, run, findings)


def judge_records(run: RunRecord, findings: Findings) -> None:
    """Judge the laws of the run as a whole: its topics, and the records that were sent."""
    records.placement(run, findings)
    records.in_order(run, findings)
    processes.topics_change_when_asked(run, findings)
    places.one_place_each(run, findings)
    places.nothing_from_nowhere(run, findings)
    places.ends_are_ends(run, findings)
    places.read_in_order(run, findings)
