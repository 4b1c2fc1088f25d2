"""Members that end are waited for, whenever that is."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock, PropertyMock

import pytest

from kafka_assignors.integration.errors import MemberDied
from kafka_assignors.integration.members.faults import MemberFaults
from kafka_assignors.integration.members.running import RunningMembers


def group(**codes: list[int | None]) -> tuple[MemberFaults, Mock]:
    """A group whose processes tell these exit codes, one each time that they are asked, the last one from then on.

    Also returns the writer of its events.
    """
    writer = Mock()
    members = RunningMembers("g", writer)
    for name, told in codes.items():
        process: Any = Mock(epitaph=lambda: "ended", incomplete="")
        type(process).returncode = PropertyMock(side_effect=[*told, *[told[-1]] * 100])
        members.by_name[name] = process
    return MemberFaults(members), writer


def test_who_ends_between_two_looks_was_waited_for() -> None:
    faults, writer = group(a=[None, 0], b=[None])

    assert faults.wait_end("a") == "ended"
    assert [(call.args, call.kwargs["member"]) for call in writer.write.call_args_list] == [(("exit",), "a")]


def test_another_that_ends_meanwhile_was_not() -> None:
    with pytest.raises(MemberDied, match="member 'b' of group 'g' ended"):
        group(a=[None, None, 0], b=[None, 1])[0].wait_end("a")
