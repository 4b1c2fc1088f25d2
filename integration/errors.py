"""Errors of the harness.

KafkaAssignorsError
└── HarnessError             a run can't be done; never a verdict
    ├── NotStable            a group isn't stable at the deadline
    ├── NotDrained           records are left, unconsumed or unread, at the deadline
    ├── NotOver              a network fault hasn't hit, or isn't over, at the deadline
    ├── MemberDied           a member ended unasked
    └── BrokerError          the broker
        ├── BrokerNotReady       it died or didn't answer in time; has the end of its log
        ├── BrokerUnreachable    nothing answers at the given address
        ├── PortTaken            the given port is in use
        ├── DockerUnavailable    no engine answers, or no image (a MachineError too)
        └── NotSupported         this backend or client can't do that

NotAgreed, a ConfigError: nobody has agreed to what a run would create
"""

from __future__ import annotations

from kafka_assignors.errors import ConfigError, KafkaAssignorsError, MachineError


class HarnessError(KafkaAssignorsError):
    """A run can't be done."""

    lines = True


class NotAgreed(ConfigError):
    """Nobody has agreed to what a run would create on a broker that it did not start; the message lists it."""

    lines = True


class NotStable(HarnessError):
    """A group isn't stable at the deadline; the message has its last known state."""


class NotDrained(HarnessError):
    """Records are left at the deadline; the message says how many in which partition."""


class NotOver(HarnessError):
    """A network fault hasn't hit, or isn't over, at the deadline; the message says how often it hit."""


class MemberDied(HarnessError):
    """A member ended unasked; the message has its last error or output."""


class BrokerError(HarnessError):
    """The broker can't be started, reached or used as requested."""


class BrokerNotReady(BrokerError):
    """The broker died or didn't answer in time.

    Args:
        log_tail: The end of the broker's log; part of the message too.
        cause: The cause found in that log, with its remedy (`broker.diagnosis`); precedes the log's end in the message.
    """

    def __init__(self, message: str, log_tail: str = "", cause: str | None = None) -> None:
        self.log_tail, self.cause = log_tail, cause
        summary = f"{message}; {cause}" if cause else message
        super().__init__(f"{summary}; the end of its log:\n{log_tail}" if log_tail else summary)


class BrokerUnreachable(BrokerError):
    """Nothing answers at the given address."""


class PortTaken(BrokerError):
    """The given port is in use."""


class DockerUnavailable(BrokerError, MachineError):
    """No Docker engine answers, or the image is neither on this machine nor can be pulled."""


class NotSupported(BrokerError):
    """This backend or client can't do that."""
