"""Records the calls of a method: what happens before it, and after it with its outcome."""

from __future__ import annotations

import contextlib
import functools

TYPE_CHECKING = False  # as in `record`
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from .record import RecordedMember

    Steps = Generator[None, BaseException | None, None]
    """What is recorded of a call: it yields where the method runs, and then gets its exception or None.

    One that ends before records nothing more.
    """


class Course:
    """The recording of one call of a method, which runs inside the block.

    `steps` makes `Steps` from the member, the subject (coordinator or consumer) and the arguments. Without a member the
    consumer is not in the group.
    """

    def __init__(self, member: RecordedMember | None, steps: Any, subject: Any, given: Any, named: Any) -> None:
        self._member, self._running = member, None
        if member is not None:
            self._running = member.guarded(self._begin, steps, member, subject, *given, **named)

    @staticmethod
    def _begin(steps: Any, /, *given: Any, **named: Any) -> Any:
        running = steps(*given, **named)
        for _ in running:
            return running
        return None

    def __enter__(self) -> None:
        """The method is called."""

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        if self._member is not None and self._running is not None:
            self._member.guarded(self._finish, self._running, error)

    @staticmethod
    def _finish(running: Any, error: BaseException | None) -> None:
        with contextlib.suppress(StopIteration):
            running.send(error)


def recorded(original: Any, steps: Any, member_of: Callable[[Any], Any]) -> Any:
    """Wrap a method: its calls are recorded."""

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with Course(member_of(self), steps, self, args, kwargs):
            return original(self, *args, **kwargs)

    return method


def recorded_async(original: Any, steps: Any, member_of: Callable[[Any], Any]) -> Any:
    """Wrap a coroutine method: its calls are recorded."""

    @functools.wraps(original)
    async def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with Course(member_of(self), steps, self, args, kwargs):
            return await original(self, *args, **kwargs)

    return method


def require(cls: Any, names: Any, client: str) -> None:
    """Check that a client's class has the methods that are wrapped. AttributeError if it is of another version."""
    if missing := [name for name in names if not hasattr(cls, name)]:
        raise AttributeError(f"this version of {client} lacks {', '.join(missing)}")
