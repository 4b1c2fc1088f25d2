"""What a fault proxy may do to one member's connections, as values. Pure.

========  =============================================================================================================
`Cut`     nothing passes on any connection of the member, in neither direction; what was sent waits. A connection that
          the member gives up meanwhile takes what it held with it
`Delay`   a frame is held back, and so is what follows it on that connection in that direction: Kafka keeps the order
`Drop`    a frame is swallowed, and so is what follows it on that connection in that direction, until the member closes
          it: answers come in the order of their requests, and no network leaves one out and delivers the next
`Reset`   the connection ends with a TCP reset, and the frame doesn't arrive
========  =============================================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any, ClassVar

from kafka_assignors.errors import ConfigError, UnknownName

from .frames import APIS

REQUEST, ANSWER = SIDES = ("request", "answer")


@dataclass(frozen=True)
class NetworkFault:
    """What happens to the connections of a member.

    Args:
        member: Its name, which is its client id; or a pattern of such names: ``m*``, ``m[12]``.
    """

    member: str

    name: ClassVar[str]

    def __post_init__(self) -> None:
        """Refuse what can't be."""
        if not self.member:
            raise ConfigError(f"{self.name}: member must be a name or a pattern such as 'm*', not {self.member!r}")
        _check_api(self)
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("ms", "for_ms", "every_ms", "times") and value is not None:
                _check_number(self, field.name, value)

    @property
    def ends(self) -> bool:
        """Whether it ends by itself; else it lasts until it is healed."""
        return True

    @property
    def limit(self) -> int | None:
        """How often it may hit; None: as often as it can."""
        return None

    @property
    def duration_ms(self) -> float | None:
        """For how long it may hit; None: for any time."""
        return None

    def of(self, client_id: str) -> bool:
        """Whether a member is meant."""
        return fnmatchcase(client_id, self.member)

    def hits(self, client_id: str, api: str, side: str) -> bool:
        """Whether it is about such a frame."""
        wanted, where = getattr(self, "api", None), getattr(self, "side", side)
        return self.of(client_id) and where == side and wanted in (None, api)

    @property
    def params(self) -> dict[str, Any]:
        """Its fields but the member, without those that say nothing, as fault events carry them."""
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in said.items() if name != "member" and value is not None}


@dataclass(frozen=True)
class Cut(NetworkFault):
    """The member is cut off.

    Args:
        for_ms: For how long; None: until it is healed.
    """

    for_ms: float | None = None

    name = "cut"

    @property
    def ends(self) -> bool:
        """As every fault."""
        return self.for_ms is not None

    @property
    def duration_ms(self) -> float | None:
        """As every fault."""
        return self.for_ms

    def hits(self, client_id: str, api: str, side: str) -> bool:  # noqa: ARG002 - it is about connections
        """No frame: it holds whole connections."""
        return False


@dataclass(frozen=True)
class Delay(NetworkFault):
    """Frames come late.

    Args:
        ms: By how much; latency, so that frames behind one another don't add up.
        api: Kafka's name, such as ``Heartbeat``; None: every one.
        side: ``request`` or ``answer``.
        times: How many frames; None: all.
        for_ms: For how long; None: until `times` are used up, or until it is healed.
    """

    ms: float
    api: str | None = None
    side: str = REQUEST
    times: int | None = None
    for_ms: float | None = None

    name = "delay"

    @property
    def ends(self) -> bool:
        """As every fault."""
        return self.times is not None or self.for_ms is not None

    @property
    def limit(self) -> int | None:
        """As every fault."""
        return self.times

    @property
    def duration_ms(self) -> float | None:
        """As every fault."""
        return self.for_ms


@dataclass(frozen=True)
class Drop(NetworkFault):
    """A frame is lost, with its connection's direction: the member finds out when its request times out.

    It is over when the member has closed the connection.

    Args:
        api: Kafka's name, such as ``SyncGroup``.
        side: ``request``: the broker never sees it; ``answer``: the broker has done it, and the member doesn't know.
        times: How many.
    """

    api: str
    side: str = ANSWER
    times: int = 1

    name = "drop"

    @property
    def limit(self) -> int | None:
        """As every fault."""
        return self.times


@dataclass(frozen=True)
class Reset(NetworkFault):
    """Connections are reset.

    Args:
        api: Kafka's name: the connection on which such a frame comes; None: all connections of the member, at once.
        side: As for `Drop`; without `api` it says nothing.
        times: How many frames; without `api`, how many times all connections.
        every_ms: Without `api`: how long from one time to the next.
    """

    api: str | None = None
    side: str = REQUEST
    times: int = 1
    every_ms: float = 1000

    name = "reset"

    @property
    def limit(self) -> int | None:
        """As every fault."""
        return self.times

    def hits(self, client_id: str, api: str, side: str) -> bool:
        """As every fault; without an API it is about no frame."""
        return self.api is not None and super().hits(client_id, api, side)


FAULTS: dict[str, type[NetworkFault]] = {kind.name: kind for kind in (Cut, Delay, Drop, Reset)}
"""Name -> kind of fault."""


def fault_of(name: str, values: dict[str, Any]) -> NetworkFault:
    """The fault of that name.

    Raises:
        UnknownName: None has it, or no API or side has its name.
        ConfigError: A field is missing, unknown or impossible.
    """
    if name not in FAULTS:
        raise UnknownName("network fault", name, FAULTS)
    try:
        return FAULTS[name](**values)
    except TypeError as error:
        known = ", ".join(field.name for field in fields(FAULTS[name]))
        raise ConfigError(
            f"{name}: {', '.join(values) or 'nothing'} given; its fields are {known} ({error})"
        ) from error


def _check_api(fault: NetworkFault) -> None:
    api, side = getattr(fault, "api", None), getattr(fault, "side", REQUEST)
    if api is not None and api not in APIS.values():
        raise UnknownName("API of Kafka", api, sorted(APIS.values()))
    if side not in SIDES:
        raise UnknownName("side of an API", side, SIDES)


def _check_number(fault: NetworkFault, field: str, value: object) -> None:
    whole = field == "times"
    kinds = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value < 1e9:
        what = "a whole number" if whole else "a number of ms"
        raise ConfigError(f"{fault.name}: {field} must be {what} above 0, not {value!r}")
