"""What an option of an assignor is. Each family declares its options once, in a class beside its strategy.

The class validates what a plan, a scenario, a consumer and another member give. The assignors of all clients and
``docs/options.md`` follow from it: tests compare every signature with it, and make the page from it.

A member imports this module before it joins, so it imports no NumPy.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from numbers import Integral, Number, Real
from typing import Any, ClassVar, Generic, TypeVar, overload

from ..errors import ConfigError
from .group.options import finite

T = TypeVar("T")
V = TypeVar("V")
Self = TypeVar("Self", bound="Option[Any]")

PROTOCOLS = ("auto", "cooperative", "eager")
"""Valid values of a consumer's `protocol`."""


class Of(Enum):
    """To whom an option belongs; this decides who takes it, and how it is sent."""

    GROUP = "group"
    """All members should have the same value; each sends its own in user data: `core.group.options` has the vote."""
    MEMBER = "member"
    """Each member has its own value, and sends it as a figure in user data. A plan takes the figures of all members."""
    CONSUMER = "consumer"
    """Each member has its own value, and does not send it in user data. A plan has no such option."""
    PLAN = "plan"
    """Only plans take it: in a live group the leader derives it from what members send, or does without it."""


class Needs(Enum):
    """What a client's consumer must be able to do for an option."""

    METER = "measure the work of partitions"
    REQUEST = "ask for a rebalance"
    COOPERATIVE = "rebalance cooperatively"


def plain(value: Any) -> Any:
    """A copy as a JSON value: a caller's dict or list may change later, and JSON reads a tuple back as a list.

    >>> plain({"a": (1, True)})
    {'a': [1, True]}
    """
    if isinstance(value, Mapping):
        return {key: plain(element) for key, element in value.items()}
    if isinstance(value, Number) and not isinstance(value, int | float):  # as of NumPy
        return int(value) if isinstance(value, Integral) else float(value) if isinstance(value, Real) else value
    return [plain(element) for element in value] if isinstance(value, list | tuple) else value


class Option(Generic[T]):
    """One option. As a class attribute of `Options` it is this declaration; as an attribute of an instance, the value.

    Args:
        annotation: Its annotation in the constructors of assignors.
        default: Its default there.
        values: The valid values, in words that follow "must be".
        check: A value as given -> the value as used. It raises a `ConfigError` with a text of its own, or another
            `ValueError`: the text is then made of `values`.
        json: A valid value as given -> a JSON value, copied from the caller's.
        unsent: A value that isn't sent, and is refused from other members, because a leader raises if it gets it.
        called: Its name in the constructors of assignors, if that differs.
    """

    def __init__(
        self,
        annotation: str,
        default: Any,
        values: str,
        help: str,
        check: Callable[[Any], T],
        *,
        of: Of = Of.GROUP,
        json: Callable[[Any], Any] = plain,
        unsent: str | None = None,
        needs: Needs | None = None,
        called: str = "",
    ) -> None:
        self.annotation, self.default, self.values, self.help = annotation, default, values, help
        self.of, self.json, self.unsent, self.needs, self.called = of, json, unsent, needs, called
        self._check = check

    def __set_name__(self, owner: type[Options], name: str) -> None:
        self.name, self.called = name, self.called or name

    @overload
    def __get__(self: Self, instance: None, owner: type[Options]) -> Self: ...

    @overload
    def __get__(self, instance: Options, owner: type[Options]) -> T: ...

    def __get__(self, instance: Options | None, owner: type[Options]) -> Any:
        return self  # an instance has the value in its own namespace, which Python looks up first

    def at(self: Self, default: Any) -> Self:
        """This option with another default."""
        other = copy.copy(self)
        other.default = default
        return other

    @property
    def in_plans(self) -> tuple[str, Any]:
        """Its annotation and default in a plan."""
        return self.annotation, self.default

    def of_plan(self, value: Any) -> T:
        """Validate the value that a plan gives, or a group's leader; ConfigError if it is invalid."""
        return self._valid(self._check, value)

    def of_consumer(self, value: Any) -> Any:
        """Validate the value that an assignor's constructor gives; ConfigError if it is invalid."""
        return self._valid(self._check, value)

    def _valid(self, check: Callable[[Any], V], value: Any, whose: str = "") -> V:
        try:
            return check(value)
        except ConfigError:
            raise
        except ValueError:
            raise ConfigError(f"{self.name}{whose} must be {self.values}, not {value!r}") from None


class Figure(Option[Mapping[str, V]]):
    """A figure that each member has for itself: a plan takes ``{member id: value}``, a consumer one value.

    `check` is for one value. If the default is None, a consumer may give None for no figure.
    """

    def __init__(self, annotation: str, default: Any, values: str, help: str, check: Callable[[Any], V]) -> None:
        self._one = check
        super().__init__(annotation, default, values, help, self._all, of=Of.MEMBER)

    @property
    def in_plans(self) -> tuple[str, Any]:
        """A plan takes a mapping of all members' figures."""
        return f"Mapping[str, {self.annotation.removesuffix(' | None')}] | None", None

    def of_consumer(self, value: Any) -> V | None:
        """Validate the figure that an assignor's constructor gives."""
        return None if value is None and self.default is None else self._valid(self._one, value)

    def _all(self, given: Any) -> Mapping[str, V]:
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            raise ConfigError(f"{self.name} must be a mapping like {{'m1': 2}}, not {given!r}")
        return {member: self._valid(self._one, value, f" of {member!r}") for member, value in given.items()}


class OfPartitions(Option[T]):
    """A figure per partition, in one form for plans and consumers. A consumer may give a callable that returns it.

    `check` is for all figures, and returns them as JSON values.
    """

    def __init__(self, annotation: str, values: str, help: str, check: Callable[[Any], T], *, called: str = "") -> None:
        self._in_plans = annotation
        own = f"{annotation.removesuffix(' | None')} | Callable[[], {annotation.removesuffix(' | None')}] | None"
        super().__init__(own, None, values, help, check, of=Of.MEMBER, json=check, called=called)

    @property
    def in_plans(self) -> tuple[str, Any]:
        """A plan takes no callable."""
        return self._in_plans, None

    def of_consumer(self, value: Any) -> Any:
        """Validate the figures that an assignor's constructor gives; a callable is trusted until it is called."""
        if value is not None and not callable(value):
            self.of_plan(value)
        return value


def unknown(owner: str, option: str, options: Collection[str]) -> ConfigError:
    """The error for an option that an assignor does not have."""
    return ConfigError(f"{owner} has no option {option!r}; it has {', '.join(options) or 'none'}")


class Options:
    """The options of a family. An instance has the values of a plan or a group, validated by `Option.of_plan`.

    Values that are not given are at their defaults.

    Raises:
        ConfigError: A value is invalid, or does not fit another one.
    """

    declared: ClassVar[Mapping[str, Option[Any]]] = {}
    """Name -> option, for the family and the families that it extends."""
    _unset: ClassVar[Mapping[str, Any] | None] = None
    """The values at their defaults; made once, because a leader validates each member's figures."""

    def __init_subclass__(cls) -> None:
        classes = reversed(cls.__mro__)
        cls.declared = {o.name: o for base in classes for o in vars(base).values() if isinstance(o, Option)}
        cls._unset = None

    def __init__(self, **given: Any) -> None:
        cls = type(self)
        if cls._unset is None:
            cls._unset = {name: option.of_plan(option.in_plans[1]) for name, option in cls.of_plans().items()}
        vars(self).update(cls._unset)
        vars(self).update({name: cls.declared[name].of_plan(value) for name, value in given.items()})
        self.validate()

    def validate(self) -> None:
        """Raise a ConfigError if the values don't fit each other."""

    @classmethod
    def chosen(cls, **given: Any) -> dict[str, Any]:
        """The arguments of an assignor's constructor as they are used; ConfigError if one is invalid."""
        options = cls.of_consumers()
        return {name: options[name].of_consumer(value) for name, value in given.items()}

    @classmethod
    def of_plans(cls) -> Mapping[str, Option[Any]]:
        """Name -> option, for the options that a plan takes."""
        return {name: option for name, option in cls.declared.items() if option.of is not Of.CONSUMER}

    @classmethod
    def of_consumers(cls) -> Mapping[str, Option[Any]]:
        """Name in an assignor's constructor -> option."""
        return {option.called: option for option in cls.declared.values() if option.of is not Of.PLAN}

    @classmethod
    def of_group(cls) -> Mapping[str, Option[Any]]:
        """Name -> option, for the options whose value should be the same for all members."""
        return {name: option for name, option in cls.declared.items() if option.of is Of.GROUP}


def optional(check: Callable[[Any], V]) -> Callable[[Any], V | None]:
    """A check that accepts None, too."""
    return lambda value: None if value is None else check(value)


def among(*choices: str) -> Callable[[Any], str]:
    """One of these strings."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ValueError
        return value

    return check


def whole(least: int, most: int | None = None) -> Callable[[Any], int]:
    """An int within bounds."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise ValueError
        given = int(value)
        if given < least or (most is not None and given > most):
            raise ValueError
        return given

    return check


def number(least: float, *, above: bool = False) -> Callable[[Any], float]:
    """A finite number from `least`, or above it."""

    def check(value: Any) -> float:
        given = finite(value)
        if given is None or given < least or (above and given == least):
            raise ValueError
        return given

    return check


def flag(value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise ValueError
    return value


def text(value: Any) -> str:
    """A string."""
    if not isinstance(value, str):
        raise ValueError
    return value


class MemberOptions(Options):
    """The options of every assignor that runs in a member."""

    rack = Option(
        "str | None", None, "a string like 'eu-1a' or None",
        "This member's rack (KIP-881), sent in the subscription. None: kafka-python's `client_rack`.",
        optional(text), of=Of.CONSUMER,
    )  # fmt: skip


class CooperativeOptions(MemberOptions):
    """The options of assignors whose members may keep their partitions during a rebalance."""

    protocol = Option(
        "str", "auto", "'auto', 'cooperative' or 'eager'",
        "The rebalance protocol that the assignor supports; `auto` follows the consumer.",
        among(*PROTOCOLS), of=Of.CONSUMER, needs=Needs.COOPERATIVE,
    )  # fmt: skip


def is_ours(name: str) -> bool:
    """Whether a name means one of this distribution's own strategies."""
    return ":" not in name.partition("{")[0]


def options_of(name: str) -> tuple[str, dict[str, Any]]:
    """Split a name like ``consistent-hash{"epsilon": 0.1}`` into name and options; ConfigError if they aren't JSON."""
    bare, brace, rest = name.partition("{")
    if not brace:
        return name, {}
    try:
        options: dict[str, Any] = json.loads(brace + rest)
    except ValueError as error:
        raise ConfigError(
            f'assignor {name!r}: its options are not a JSON object like {{"epsilon": 0.1}}: {error}'
        ) from error
    return bare, options
