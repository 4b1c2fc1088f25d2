"""What to change in a group, from its rebalances. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ...history import stops
from ...history.causes import Cause
from ...history.rebalances import Rebalance
from ...history.stops import StopPart
from ...output import many


def advice(rebalances: Sequence[Rebalance]) -> list[str]:
    """What to change, one sentence each, with the numbers that support it; nothing that the log doesn't show."""
    sentences = []
    causes = [cause for rebalance in rebalances for cause in rebalance.causes]
    restarts = [cause for cause in causes if cause.kind == "restarted" and not cause.instance_id]
    if restarts:
        away_ms = max(cause.away_ms or 0 for cause in restarts)
        after = f", back after up to {away_ms / 1000:.1f} s" if away_ms else ""
        sentences.append(
            f"{many(len(restarts), 'restart')} of {_counted(restarts)}{after}: with group.instance.id set, and a "
            "session.timeout.ms above the time that it takes, a restart causes no rebalance. (If a process lived on, "
            "it had exceeded max.poll.interval.ms, or its session expired.)"
        )
    if returned := [cause for cause in causes if cause.kind == "returned" and cause.away_ms is not None]:
        sentences.append(
            f"{_counted(returned)} came back after the coordinator had removed it, although it has an instance id: "
            "with a session.timeout.ms above the time that a restart takes, it causes no rebalance."
        )
    if rejoined := [cause for cause in causes if cause.kind == "rejoined"]:
        sentences.append(
            f"{_counted(rejoined)} joined again with the member id that it had, so its process lived on: it had "
            "unsubscribed, or paused for longer than its session timeout or max.poll.interval.ms."
        )
    if expired := [cause for cause in causes if cause.kind == "left or expired"]:
        sentences.append(
            f"{_counted(expired)} left or expired (the log can't say which): if nobody stopped it, compare its "
            "processing time per poll with max.poll.interval.ms, and its pauses with session.timeout.ms."
        )
    needless: dict[str, int] = {}
    for rebalance in rebalances:
        if rebalance.needless and rebalance.protocol and not rebalance.by_broker:
            needless[rebalance.protocol] = needless.get(rebalance.protocol, 0) + rebalance.needless
    for protocol, moves in needless.items():
        if protocol != "cooperative-sticky":
            sentences.append(
                f"{protocol} moved {many(moves, 'partition')} needlessly: cooperative-sticky keeps them where they are "
                "(plan shows it; vote tells the order of bounces)."
            )
        else:
            sentences.append(
                f"{protocol} moved {many(moves, 'partition')} more than an optimal plan: a leader with the assignors "
                "of kafka-assignors moves the least."
            )
    if (stopped := sum(bool(rebalance.eager) for rebalance in rebalances)) and sum(
        rebalance.counted for rebalance in rebalances
    ) > 1:
        sentences.append(
            f"{many(stopped, 'rebalance')} stopped every member: no member claimed a partition when it joined (eager "
            "protocol); a cooperative assignor stops only what moves."
        )
    sentences += _shorter(rebalances)
    if unexplained := sum(cause.kind == "unexplained" for cause in causes):
        sentences.append(
            f"{many(unexplained, 'rebalance')} without a visible cause: the leader asked again (metadata changed, "
            "enforceRebalance), or a member sent other user data."
        )
    return sentences


def _counted(causes: Sequence[Cause], most: int = 3) -> str:
    """The members of causes, the most frequent first, and how many more there are."""
    clients = Counter(cause.who for cause in causes)
    named = ", ".join(f"{who} ({n}x)" if n > 1 else who for who, n in clients.most_common(most))
    return named + (f" and {len(clients) - most:,} more" if len(clients) > most else "")


_LONG_MS, _LONG_ASSIGN_MS = 500.0, 1000.0
"""Above this a part of a stop is worth a setting; the leader's own time above that."""
_SHORT_BEAT_MS = 1000


def _shorter(rebalances: Sequence[Rebalance]) -> Iterator[str]:
    """Which setting of whom shortens the stops, by their longest parts."""
    longest: dict[str, StopPart] = {}
    for part in (part for rebalance in rebalances for part in rebalance.parts if part.at_most_ms is not None):
        kept = longest.get(part.what)
        if kept is None or part.at_most_ms > (kept.at_most_ms or 0):  # type: ignore[operator]
            longest[part.what] = part

    def long(what: str, above_ms: float = _LONG_MS) -> tuple[str, str] | None:
        part = longest.get(what)
        if part is None or part.at_most_ms is None or part.at_most_ms < above_ms:
            return None
        more = f" and {len(part.who) - 3} more" if len(part.who) > 3 else ""
        return f"{part.at_most_ms / 1000:.1f} s", ", ".join(part.who[:3]) + more

    if (delay := long(stops.SECOND)) is not None:
        yield (
            f"A second round took up to {delay[0]}: {delay[1]} gave partitions up and joined again, after their "
            "callbacks, and all others heard of it by their next heartbeat (heartbeat.interval.ms, 3 s by default). "
            "Members with an assignor of kafka-assignors, guard() or the bridge ask early and need milliseconds; of "
            "other clients, a shorter heartbeat.interval.ms on every member bounds it."
        )
    if (delay := long(stops.HEARD)) is not None:
        yield (
            f"Partitions waited up to {delay[0]} until {delay[1]} had heard of the rebalance and joined: a shorter "
            "heartbeat.interval.ms of these members bounds it (3 s by default; the slowest decides, and the log does "
            "not show which), if they poll and their callbacks are short."
        )
    if (delay := long(stops.ASSIGNED, _LONG_ASSIGN_MS)) is not None:
        yield (
            f"{delay[1]} took {delay[0]} to assign, as the leader: that is its assignor's own time; every member waits."
        )
    if (delay := long(stops.GIVEN)) is not None:
        yield (
            f"Partitions that the broker moved waited up to {delay[0]} for the next heartbeat of their new owners "
            f"({delay[1]}): consumer.heartbeat.interval.ms={_SHORT_BEAT_MS} for this group would make that at most "
            f"{_SHORT_BEAT_MS / 1000:.1f} s (5 s unless set; the broker must allow it by "
            "group.consumer.min.heartbeat.interval.ms)."
        )
