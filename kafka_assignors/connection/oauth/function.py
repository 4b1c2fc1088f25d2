"""A token from a function of the user's, ``module:function``: for the identity that a cloud gives to a machine."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ...errors import AccessRefused, ConfigError
from .grant import Grant
from .token import Token, claims, of_answer


def load(name: str) -> Callable[[str], Any]:
    """What a grant's `function` names, as a function of one text.

    It may be a function, called with the text of ``sasl.oauthbearer.config`` if it takes an argument; or a class with a
    method ``token``, as the token providers of kafka-python and aiokafka are.

    Raises:
        ConfigError: It can't be imported, or is neither.
    """
    place, _, attribute = name.partition(":")
    try:
        target = getattr(import_module(place), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"oauth_cb={name}: {error}; name an importable function as module:function (PYTHONPATH says where modules "
            "are looked for)"
        ) from error
    if inspect.isclass(target):
        target = target()
    if callable(method := getattr(target, "token", None)):
        return lambda _argument: _provided(target, method)
    if not callable(target):
        raise ConfigError(f"oauth_cb={name} is neither a function nor a token provider with a method token()")
    return target if _takes_text(target) else lambda _argument: target()


def call(function: Callable[[str], Any], grant: Grant) -> Token:
    """Call the function that `load` returned.

    Raises:
        AccessRefused: It raised, or returned something that is no token. The message has the error's class and text.
    """
    source = f"oauth_cb={grant.function}"
    try:
        answer = _result(function(grant.argument))
    except Exception as error:
        raise AccessRefused(f"{source} raised {type(error).__name__}: {error}") from error
    return of_answer(answer, time.time(), source)


def _provided(provider: Any, token: Callable[[], Any]) -> Any:
    """The token of a provider; a tuple if it has extensions, too."""
    value = _result(token())
    extensions: dict[str, str] = getattr(provider, "extensions", dict)()
    if not extensions or not isinstance(value, str):
        return value
    return value, claims(value).get("exp"), None, extensions


def _result(value: Any) -> Any:
    """`value`, awaited in a loop of its own if it is a coroutine."""
    return asyncio.run(value) if inspect.iscoroutine(value) else value


def _takes_text(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind("")
    except TypeError:
        return False
    except ValueError:  # of a builtin
        return True
    return True
