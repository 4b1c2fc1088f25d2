"""A user's own functions: one makes a record of an id, one tells the id of an output."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from kafka_assignors.errors import ConfigError

from ..errors import HarnessError

Maker = Callable[[str], tuple[bytes | None, bytes] | bytes]
"""Id -> the value of its record, or key and value; without a key it is the harness's."""
Matcher = Callable[[Any], str | None]
"""An output -> the id of the record that it is of; None: of none."""
Function = str | Callable[..., Any]
"""A user's function, or its name as ``module:function``."""
_SAMPLE = "00000000-0"
_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def is_function(text: str) -> bool:
    """Whether a text has the form ``module:function``."""
    return _NAME.fullmatch(text) is not None


def maker(option: str, function: Function) -> Maker:
    """Makes records by a user's function, which is tried with a sample id first.

    A name is looked for in modules of the working directory, too. `option` names the function in messages.

    Raises:
        ConfigError: It can't be imported or called, or returns no value.
    """
    name, make = _named(option, function)

    def made(value_id: str) -> tuple[bytes | None, bytes] | bytes:
        try:
            answer = make(value_id)
        except Exception as error:
            raise ConfigError(
                f"{option} {name}: called with the id {value_id!r}, it raised {type(error).__name__}: {error}; it "
                "takes the id of a record, and returns its value"
            ) from error
        if isinstance(answer, tuple) and len(answer) == 2:
            key, value = answer
            return None if key is None else _bytes(option, name, key), _bytes(option, name, value)
        return _bytes(option, name, answer)

    if made(_SAMPLE) == made(f"{_SAMPLE}0"):
        raise ConfigError(
            f"{option} {name} returns the same for two ids, and its records can't be told apart; put the id that it "
            "gets into value or key"
        )
    return made


def matcher(option: str, function: Function) -> Matcher:
    """Tells the id of an output by a user's function. ConfigError if it can't be imported."""
    name, match = _named(option, function)

    def matched(record: Any) -> str | None:
        try:
            answer = match(record)
        except Exception as error:
            raise HarnessError(
                f"{option} {name}: it raised {type(error).__name__} for the output at "
                f"{record.topic}-{record.partition}, offset {record.offset}: {error}"
            ) from error
        if isinstance(answer, bytes):
            answer = answer.decode("utf-8", "replace")
        if answer is not None and not isinstance(answer, str):
            raise HarnessError(
                f"{option} {name} returned {type(answer).__name__} for an output; return the id of the record that it "
                "is of as text or bytes, or None"
            )
        return answer

    return matched


def _bytes(option: str, name: str, part: Any) -> bytes:
    if isinstance(part, str):
        return part.encode()
    if not isinstance(part, bytes):
        raise ConfigError(
            f"{option} {name} returned {type(part).__name__}; return the record's value as text or bytes, or "
            "(key, value)"
        )
    return part


def _named(option: str, function: Function) -> tuple[str, Callable[..., Any]]:
    """A function, and what messages call it. ConfigError as of `_imported`."""
    if isinstance(function, str):
        return function, _imported(option, function)
    if not callable(function):
        raise ConfigError(f"{option}={function!r} is neither a function nor its name as module:function")
    return getattr(function, "__qualname__", type(function).__qualname__), function


def _imported(option: str, name: str) -> Callable[..., Any]:
    """The function of a name. ConfigError if it isn't found, or is none."""
    place, _, attribute = name.partition(":")
    here = str(Path.cwd())
    sys.path.append(here)  # a console script has not the working directory
    try:
        function = getattr(import_module(place), attribute)
    except Exception as error:  # of the user's module, too
        raise ConfigError(
            f"{option} {name}: {type(error).__name__}: {error}; name an importable function as module:function"
        ) from error
    finally:
        sys.path.remove(here)
    if not callable(function):
        raise ConfigError(f"{option} {name}: it is {type(function).__name__} and no function")
    made: Callable[..., Any] = function
    return made
