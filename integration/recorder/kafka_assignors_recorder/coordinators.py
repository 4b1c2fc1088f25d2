"""What kafka-python and aiokafka share: a coordinator in Python, with a member for each consumer in the group."""

from __future__ import annotations

import functools
import weakref

from .calls import recorded_async, require
from .record import MEMBER, RecordedMember, say

TYPE_CHECKING = False  # as in `record`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .calls import Steps
    from .record import File


def of_coordinator(coordinator: Any) -> Any:
    """The member of a coordinator; None if its consumer is not in the group."""
    return getattr(coordinator, MEMBER, None)


def of_consumer(consumer: Any) -> Any:
    """The member of a consumer; None if it is not in the group."""
    return of_coordinator(getattr(consumer, "_coordinator", None))


def committing(member: RecordedMember, _: Any, offsets: Any, *__: Any, **___: Any) -> Steps:
    """The client sends a commit: topic-partition -> what has its offset."""
    committed = [(tp.topic, tp.partition, place.offset) for tp, place in (offsets or {}).items()]
    if not committed:
        return
    member.commit("begin", committed)
    error = yield
    if error is None:
        member.commit("ok", committed)
    else:
        member.commit("fail", committed, error=f"{type(error).__name__}: {error}")


def giving_up(member: RecordedMember, name: str, partitions: Any) -> Steps:
    """A member revokes or loses partitions while the client does its part."""
    partitions = member.kept(partitions)
    if not partitions:
        return
    member.callback(name, "begin", partitions)
    yield
    member.callback(name, "end", partitions)


def wrap_class(cls: Any, client: str, steps_of: Any, made: Callable[[Any], RecordedMember | None]) -> None:
    """Wrap a coordinator's class; AttributeError if it is of another version of the client.

    `steps_of` has each method's `Steps`; all are coroutines. `made` makes the member of a new coordinator; None if it
    is not in the group.
    """
    require(cls, steps_of, client)
    original = cls.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        try:
            member = made(self)
            if member is not None:
                weakref.finalize(self, member.guarded, member.flush)  # also at exit, of a consumer that is not closed
                setattr(self, MEMBER, member)
        except Exception as error:
            say(f"a consumer is not recorded: {error!r}")

    cls.__init__ = init
    for name, steps in steps_of.items():
        setattr(cls, name, recorded_async(getattr(cls, name), steps, of_coordinator))


def member_of_group(
    coordinator: Any, file: File, client: str, group: str, read_id: Callable[[Any], str]
) -> RecordedMember | None:
    """The member of a new coordinator, whose end must not depend on it; None if it is not in the group."""
    if coordinator.group_id != group:
        return None
    coordinator_of = weakref.ref(coordinator)

    def member_id() -> str:
        there = coordinator_of()
        return "" if there is None else str(read_id(there))

    return RecordedMember(file, client, member_id)
