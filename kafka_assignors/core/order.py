"""The orders Kafka's Java client sorts names and members by; every member of a mixed group must agree on them."""

from __future__ import annotations

from .group import Member


def utf16(name: str) -> bytes:
    """Sort key of Java's ``String.compareTo``: UTF-16 code units, which put U+10000 and above before U+E000."""
    return name.encode("utf-16-be", "surrogatepass")


def static_first(member: Member) -> tuple[bool, bytes, bytes]:
    """Sort key of range and roundrobin: static members by instance id, then dynamic ones by member id.

    Source: KIP-345; ``AbstractPartitionAssignor.MemberInfo.compareTo``.
    """
    member_id = utf16(member.member_id)
    return (True, member_id, b"") if member.instance_id is None else (False, utf16(member.instance_id), member_id)
