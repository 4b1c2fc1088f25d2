"""Producers' transactions: the offsets that they commit for this process's members. The same for every client.

A commit begins when a producer is given offsets of the recorded group, and ends as its transaction does.
"""

from __future__ import annotations

import functools

from .record import say

TYPE_CHECKING = False  # as in `record`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .calls import Steps
    from .record import File, RecordedMember

    Sent = tuple[str, str, list[tuple[str, int, int]]]
    """What a producer is given: the group, the member id ("": unknown), and topic, partition and offset of each."""

TRANSACTIONS = "_kafka_assignors_transactions"
"""The attribute that holds the `Transactions` of a client's producer."""
METHODS = ("begin_transaction", "send_offsets_to_transaction", "commit_transaction", "abort_transaction")
_ABORTED = "the service aborted the transaction"


class _SentOffsets:
    """Those that a transaction commits for a member. `waits`: its outcome is not told yet."""

    def __init__(self, member: RecordedMember, number: int, offsets: list[tuple[str, int, int]]) -> None:
        self._member, self._number, self._offsets = member, number, offsets
        self.waits = False

    def begin(self) -> None:
        if not self.waits:
            self.waits = True
            self._tell("begin")

    def end(self, error: str | None = None) -> None:
        if self.waits:
            self.waits = False
            self._tell("ok") if error is None else self._tell("fail", error=error)

    def _tell(self, edge: str, **error: str) -> None:
        self._member.guarded(self._member.commit, edge, self._offsets, transaction=self._number, **error)


class Transactions:
    """Those of one producer, one after the other: `file` has the members of the `group` whose offsets are recorded."""

    def __init__(self, file: File, group: str) -> None:
        self._file, self._group = file, group
        self._number, self._failed = 0, False
        self._commits: list[_SentOffsets] = []

    def guarded(self, step: Callable[..., Any], /, *given: Any, **named: Any) -> Any:
        """Do a step of the recorder, as `RecordedMember.guarded`; if one fails, the member's recording ends, too."""
        try:
            return None if self._failed else step(*given, **named)
        except Exception as error:
            self._failed = True
            member = self._file.member("")
            if member is None:
                say(f"a producer is not recorded: {error!r}")
            else:
                member.fail(error)
        return None

    def begin(self) -> None:
        """A transaction has begun."""
        self._number, self._commits = self._file.transaction(), []

    def send(self, group: str, member_id: str, offsets: list[tuple[str, int, int]]) -> _SentOffsets | None:
        """The producer is given offsets; None: they are of another group, or of no member here."""
        member = self._file.member(member_id) if group == self._group and offsets else None
        if member is None:
            return None
        commit = _SentOffsets(member, self._number, offsets)
        self._commits.append(commit)
        commit.begin()
        return commit

    def drop(self, commit: _SentOffsets, error: BaseException) -> None:
        """The producer did not take offsets; the service may give them again."""
        self._commits.remove(commit)
        commit.end(_text(error))

    def commit(self) -> None:
        """The transaction is about to be committed, perhaps once more."""
        for commit in self._commits:
            commit.begin()

    def committed(self, error: BaseException | None) -> None:
        """It was committed, or could not be: the service may try again, or abort."""
        for commit in self._commits:
            commit.end(None if error is None else _text(error))
        if error is None:
            self._commits, self._file.aborted = [], False

    def aborted(self) -> None:
        """The transaction was aborted."""
        for commit in self._commits:
            commit.end(_ABORTED)
        self._commits, self._file.aborted = [], True


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _beginning(transactions: Transactions, *_: Any, **__: Any) -> Steps:
    if (yield) is None:
        transactions.begin()


def _sending(read: Callable[..., Sent], transactions: Transactions, _: Any, *given: Any, **named: Any) -> Steps:
    unread, commit = None, None
    try:
        sent = read(*given, **named)
    except Exception as error:
        unread = error
    else:
        commit = transactions.send(*sent)
    refusal = yield
    if refusal is None:
        if unread is not None:  # the client could read it
            raise unread
    elif commit is not None:
        transactions.drop(commit, refusal)


def _committing(transactions: Transactions, *_: Any, **__: Any) -> Steps:
    transactions.commit()
    transactions.committed((yield))


def _aborting(transactions: Transactions, *_: Any, **__: Any) -> Steps:
    if (yield) is None:
        transactions.aborted()


def wrapped(cls: Any, file: File, group: str, read: Callable[..., Sent], wrap: Callable[..., Any]) -> dict[str, Any]:
    """The methods of a producer's class, wrapped; none if its client has no transactions.

    `read` reads the arguments of ``send_offsets_to_transaction``; `wrap` is `calls.recorded`, or its twin for
    coroutines.
    """
    if not all(hasattr(cls, name) for name in METHODS):
        return {}

    def of_producer(producer: Any) -> Any:
        try:
            made = getattr(producer, TRANSACTIONS, None)
            if made is None:
                made = Transactions(file, group)
                setattr(producer, TRANSACTIONS, made)
        except Exception as error:
            say(f"a producer is not recorded: {error!r}")
            return None
        return made

    steps = _beginning, functools.partial(_sending, read), _committing, _aborting
    return {name: wrap(getattr(cls, name), step, of_producer) for name, step in zip(METHODS, steps)}  # noqa: B905 - Python 3.9
