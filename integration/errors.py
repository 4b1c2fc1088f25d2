"""Errors of the harness.

KafkaAssignorsError
└── HarnessError             a run that cannot be done; never a verdict
    ├── NotStable            a group isn't stable at the deadline
    ├── NotDrained           records are left, unconsumed or unread, at the deadline
    ├── NotOver              a network fault hasn't hit, or isn't over, at the deadline
    ├── MemberDied           a member ended by itself
    └── BrokerError          the broker
        ├── BrokerNotReady       it died or did not answer in time; carries the end of its log
        ├── BrokerUnreachable    nothing answers at the named address
        ├── PortTaken            the named port is in use
        ├── DockerUnavailable    no engine answers, or no image (a MachineError too)
        └── NotSupported         this backend, or this client, cannot do that
"""

from __future__ import annotations

from kafka_assignors.errors import KafkaAssignorsError, MachineError


class HarnessError(KafkaAssignorsError):
    """A run that cannot be done."""


class NotStable(HarnessError):
    """A group isn't stable at the deadline; the message tells what was last seen."""


class NotDrained(HarnessError):
    """Records are left at the deadline; the message tells how many of which partition."""


class NotOver(HarnessError):
    """A network fault hasn't hit, or isn't over, at the deadline; the message tells how often it hit."""


class MemberDied(HarnessError):
    """A member ended by itself; the message has its own words."""


class BrokerError(HarnessError):
    """The broker cannot be started, reached or used as asked."""


class BrokerNotReady(BrokerError):
    """The broker died or did not answer in time.

    Args:
        message: What happened, and where.
        log_tail: The end of the broker's log; part of the message too.
        cause: What that log names as the cause, with its remedy (`broker.causes`); stands before the log's end.
    """

    def __init__(self, message: str, log_tail: str = "", cause: str | None = None) -> None:
        self.log_tail, self.cause = log_tail, cause
        told = f"{message}; {cause}" if cause else message
        super().__init__(f"{told}; the end of its log:\n{log_tail}" if log_tail else told)


class BrokerUnreachable(BrokerError):
    """Nothing answers at the named address."""


class PortTaken(BrokerError):
    """The named port is in use."""


class DockerUnavailable(BrokerError, MachineError):
    """No Docker engine answers, or the image is neither here nor to be had."""


class NotSupported(BrokerError):
    """This backend, or this client, cannot do that."""
