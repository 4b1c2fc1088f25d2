"""A missing right is known by every client's words for it."""

from __future__ import annotations

import errno

import pytest
from kafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
)

from kafka_assignors.connection import Connection, Right, denied, needing
from kafka_assignors.errors import AccessRefused
from tests.support.connection.least import NEEDED
from tests.support.places import ROOT

ALICE = Connection("b:1", "SASL_SSL", "PLAIN", "alice", "hunter2")
RIGHTS = (Right("Read", "Topic", "orders"), Right("Write", "Topic", "audit"), Right("Read", "Group", "billing"))


@pytest.mark.parametrize(
    ("error", "right"),
    [
        (TopicAuthorizationFailedError({"orders"}), "Read on Topic orders"),
        (TopicAuthorizationFailedError({"audit"}), "Write on Topic audit"),
        (GroupAuthorizationFailedError("billing"), "Read on Group billing"),
        (ClusterAuthorizationFailedError("producer id"), "Write on Topic audit"),
        (RuntimeError("Broker: Topic authorization failed"), "Read on Topic orders"),
        (RuntimeError("KafkaError{code=GROUP_AUTHORIZATION_FAILED,val=30}"), "Read on Group billing"),
        (RuntimeError("org.apache.kafka…TopicAuthorizationException: Not authorized"), "Read on Topic orders"),
    ],
)
def test_each_client_s_error_names_the_right(error: Exception, right: str):
    with pytest.raises(AccessRefused) as told, needing(ALICE, *RIGHTS):
        raise error
    assert f"b:1: user 'alice' lacks the permission {right}; an administrator can grant it with: kafka-acls.sh" in str(
        told.value
    )
    assert "hunter2" not in str(told.value)


def test_a_right_on_something_else_is_not_called_missing():
    refused = denied(ALICE, GroupAuthorizationFailedError("billing"), Right("Read", "Topic", "orders"))
    said = "b:1: user 'alice' lacks a permission on a Group; an administrator can grant it with kafka-acls.sh"
    assert str(refused) == said


def test_what_is_about_something_else_passes():
    assert denied(ALICE, KafkaError("disconnected"), *RIGHTS) is None
    assert denied(ALICE, OSError(errno.EROFS, "Read-only file system"), *RIGHTS) is None  # 30, as a group's refusal
    with pytest.raises(ZeroDivisionError), needing(ALICE, *RIGHTS):
        _ = 1 // 0


def test_the_command_gives_exactly_the_right():
    given = "kafka-acls.sh --bootstrap-server b:1 --add --allow-principal User:alice --operation"
    assert Right("Read", "Topic", "orders").command("alice", "b:1") == f"{given} Read --topic orders"
    prefixed = Right("Create", "Topic", "run-", prefixed=True)
    assert prefixed.command("alice", "b:1") == f"{given} Create --topic run- --resource-pattern-type prefixed"
    assert Right("Alter", "Cluster").command("alice", "b:1") == f"{given} Alter --cluster"


def test_the_page_has_the_table_that_is_tested():
    page = (ROOT / "docs" / "secured-clusters.md").read_text("utf-8")
    names = {"orders": "T", "billing": "G", "owned": "G", "events": "E"}
    run = "…"
    for what, rights in NEEDED.items():
        told = ", ".join(
            f"{r.operation} {r.kind} {names.get(r.name, r.name)}{'*' if r.prefixed else ''}" for r in rights
        )
        if what != "test":
            told = told.replace(run, "those of `test`")
        assert f"| {what} | {told} |" in page, f"| {what} | {told} |"
        run = told if what == "test" else run
