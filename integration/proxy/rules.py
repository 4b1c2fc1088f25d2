"""The faults that a proxy can apply to one member's connections, as values. Pure.

========  =============================================================================================================
`Cut`     nothing passes on any connection of the member, in either direction; frames wait. If the member gives up a
          connection meanwhile, its waiting frames are lost
`Delay`   a frame, and all that follow it on that connection in that direction, are held back: Kafka keeps the order
`Drop`    a frame, and all that follow it on that connection in that direction, are swallowed until the member closes
          the connection: answers keep the order of requests, and no network skips one and delivers the next
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
    """A fault of a member's connections. `member` is its name (client id) or a pattern of names: ``m*``, ``m[12]``."""

    member: str

    name: ClassVar[str]

    def __post_init__(self) -> None:
        """Validate the fields."""
        if not self.member:
            raise ConfigError(f"{self.name}: member must be a name or a pattern such as 'm*', not {self.member!r}")
        _check_api(self)
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("ms", "for_ms", "every_ms", "times") and value is not None:
                _check_number(self, field.name, value)

    @property
    def ends(self) -> bool:
        """Whether it ends on its own, by a number of hits or a duration. If not, it lasts until it is healed."""
        return self.limit is not None or self.duration_ms is not None

    @property
    def limit(self) -> int | None:
        """How many times it may hit; None: no limit."""
        return getattr(self, "times", None)

    @property
    def duration_ms(self) -> float | None:
        """How long it may hit, in ms; None: no limit."""
        return getattr(self, "for_ms", None)

    def of(self, client_id: str) -> bool:
        """Whether the fault applies to a member."""
        return fnmatchcase(client_id, self.member)

    def hits(self, client_id: str, api: str, side: str) -> bool:
        """Whether the fault applies to a frame."""
        wanted, where = getattr(self, "api", None), getattr(self, "side", side)
        return self.of(client_id) and where == side and wanted in (None, api)

    @property
    def params(self) -> dict[str, Any]:
        """Fields of a fault event: all but the member and those that are None."""
        field_values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in field_values.items() if name != "member" and value is not None}


@dataclass(frozen=True)
class Cut(NetworkFault):
    """The member is cut off for `for_ms`; None: until it is healed."""

    for_ms: float | None = None

    name = "cut"

    def hits(self, client_id: str, api: str, side: str) -> bool:  # noqa: ARG002 - it is about connections
        """Always False: a cut holds whole connections."""
        return False


@dataclass(frozen=True)
class Delay(NetworkFault):
    """Frames come late.

    Args:
        ms: Delay of each frame; delays of consecutive frames don't add up.
        api: Kafka's name, such as ``Heartbeat``; None: every API.
        side: ``request`` or ``answer``.
        times: Number of frames; None: all.
        for_ms: Duration; None: until `times` are used up, or until it is healed.
    """

    ms: float
    api: str | None = None
    side: str = REQUEST
    times: int | None = None
    for_ms: float | None = None

    name = "delay"


@dataclass(frozen=True)
class Drop(NetworkFault):
    """A frame and the rest of its connection's direction are lost. The member notices by its request timeout.

    The fault is over when the member has closed the connection.

    Args:
        api: Kafka's name, such as ``SyncGroup``.
        side: ``request``: the broker never sees it; ``answer``: the broker has done it, and the member doesn't know.
        times: Number of frames.
    """

    api: str
    side: str = ANSWER
    times: int = 1

    name = "drop"


@dataclass(frozen=True)
class Reset(NetworkFault):
    """Connections are reset.

    Args:
        api: Kafka's name: reset the connection of such a frame; None: all connections of the member, at once.
        side: ``request`` or ``answer``; ignored without `api`.
        times: Number of frames; without `api`, number of resets of all connections.
        every_ms: Without `api`, time between two resets.
    """

    api: str | None = None
    side: str = REQUEST
    times: int = 1
    every_ms: float = 1000

    name = "reset"

    def hits(self, client_id: str, api: str, side: str) -> bool:
        """Whether the fault applies to a frame. Always False without an API."""
        return self.api is not None and super().hits(client_id, api, side)


FAULTS: dict[str, type[NetworkFault]] = {kind.name: kind for kind in (Cut, Delay, Drop, Reset)}
"""Name -> class of the fault."""


def fault_of(name: str, values: dict[str, Any]) -> NetworkFault:
    """The fault of that name.

    Raises:
        UnknownName: The fault, API or side is unknown.
        ConfigError: A field is missing, unknown or invalid.
    """
    if name not in FAULTS:
        raise UnknownName("network fault", name, FAULTS)
    try:
        return FAULTS[name](**values)
    except TypeError as error:
        field_names = ", ".join(field.name for field in fields(FAULTS[name]))
        raise ConfigError(
            f"{name}: {', '.join(values) or 'nothing'} given; its fields are {field_names} ({error})"
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
