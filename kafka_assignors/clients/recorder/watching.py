"""Lets a recorder see the calls of a client's methods; their answers, exceptions and order stay the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .member import ServiceMember

Steps = Generator[None, Any, None]
"""What a recorder does before a call, up to ``yield``, and after it: ``yield`` returns the call's answer. If the call
raises, only what is in ``finally`` is done."""
Watch = Callable[..., Steps]
"""Member, the client's coordinator, and the arguments of the call -> the steps."""


def watched(
    member: ServiceMember, watch: Watch, coordinator: Any, original: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """Call a coordinator's method with a recorder's steps around the call."""
    with _around(member, watch, coordinator, *args, **kwargs) as end:
        answer = original(*args, **kwargs)
        end(answer)
    return answer


async def watched_async(
    member: ServiceMember, watch: Watch, coordinator: Any, original: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """The same of a coroutine function."""
    with _around(member, watch, coordinator, *args, **kwargs) as end:
        answer = await original(*args, **kwargs)
        end(answer)
    return answer


@contextmanager
def _around(member: ServiceMember, watch: Watch, *args: Any, **kwargs: Any) -> Iterator[Callable[[Any], None]]:
    begun: list[Steps] = []

    def begin() -> None:
        begun.append(watch(member, *args, **kwargs))  # raises if the client calls otherwise than the steps expect
        next(begun[0])

    def end(answer: Any) -> None:
        with suppress(StopIteration):
            begun[0].send(answer)

    member.guarded(begin)
    try:
        yield lambda answer: member.guarded(end, answer)
    finally:
        for steps in begun:
            member.guarded(steps.close)


def assigning(member: ServiceMember, *_args: Any, **_kwargs: Any) -> Steps:
    """The steps around a leader's assignment, in every client."""
    begun = time.perf_counter()
    assignments = yield
    member.assigned(assignments, time.perf_counter() - begun)
