"""Classes whose options are keywords: the error for a misspelt option lists all options."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Mapping
from inspect import Parameter, Signature, signature
from typing import Any, NoReturn

from ..core.declaration import unknown
from ..errors import ConfigError
from .mistaken import alone


def arguments(names: Mapping[str, Any]) -> dict[str, Any]:
    """A constructor's arguments by name, from its ``locals()``, before it makes a local variable."""
    return {name: value for name, value in names.items() if name not in ("self", "__class__")}


class KeywordOptions(ABCMeta):
    """Metaclass of the assignors. ``help``, IDEs and type checkers still see the signature of ``__init__``.

    A class may have ``lacks``: options of its family that it hasn't -> the reason.
    """

    lacks: Mapping[str, str] = {}

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an instance; `ConfigError` if ``__init__`` lacks a keyword, or an option is given without one."""
        parameters = cls.__signature__.parameters
        places = sum(parameter.kind is not Parameter.KEYWORD_ONLY for parameter in parameters.values())
        if len(args) > places and not any(
            parameter.kind is Parameter.VAR_POSITIONAL for parameter in parameters.values()
        ):
            names = ", ".join(
                f"{name}=…" for name, parameter in parameters.items() if parameter.kind is Parameter.KEYWORD_ONLY
            )
            raise ConfigError(f"{cls.__name__} takes options by name ({names}); {args[places]!r} has none")
        if not any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()):
            for option in kwargs:
                if option in cls.lacks:
                    raise ConfigError(f"{cls.__name__} has no option {option!r}: {cls.lacks[option]}")
                if option not in parameters:
                    raise unknown(cls.__name__, option, parameters)
        return super().__call__(*args, **kwargs)

    def __iter__(cls) -> NoReturn:
        """Always raises `AloneError`: a client that iterates over the class got it where a list belongs."""
        raise alone(cls)

    @property
    def __signature__(cls) -> Signature:
        """The signature of ``__init__``; without this `inspect` would show the one of ``__call__``."""
        whole = signature(cls.__init__)  # type: ignore[misc]
        return whole.replace(parameters=[*whole.parameters.values()][1:])
