"""Members that end are waited for, whenever that is."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock, PropertyMock, patch

import pytest

from kafka_assignors.integration.errors import MemberDied
from kafka_assignors.integration.members.faults import MemberFaults


def group(**codes: list[int | None]) -> Any:
    """A group whose processes tell these exit codes, one each time that they are asked, the last one from then on."""
    with patch.multiple(MemberFaults, __abstractmethods__=frozenset()):
        faults: Any = MemberFaults()  # type: ignore[abstract]
    faults.group, faults._processes = "g", {}
    for name, told in codes.items():
        process = faults._processes[name] = Mock(epitaph=lambda: "ended")
        type(process).returncode = PropertyMock(side_effect=[*told, *[told[-1]] * 100])
    faults._running, faults._ended = faults._processes.get, Mock()
    return faults


def test_who_ends_between_two_looks_was_waited_for() -> None:
    faults = group(a=[None, 0], b=[None])

    assert faults.wait_end("a") == "ended"
    assert [call.args[0] for call in faults._ended.call_args_list] == ["a"]


def test_another_that_ends_meanwhile_was_not() -> None:
    with pytest.raises(MemberDied, match="member 'b' of group 'g' ended"):
        group(a=[None, None, 0], b=[None, 1]).wait_end("a")
