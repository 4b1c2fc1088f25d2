"""Types of the fixtures that make topics and groups, with options by name."""

from __future__ import annotations

from collections.abc import Callable

from kafka_assignors.integration.members.group import MemberGroup

MakeTopic = Callable[..., str]
MakeGroup = Callable[..., MemberGroup]
