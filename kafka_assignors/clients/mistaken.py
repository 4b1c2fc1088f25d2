"""Errors for an assignor that is given to a consumer in a form that the consumer's client does not understand."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

from ..errors import ConfigError


class AloneError(ConfigError, TypeError):
    """An assignor that is not in a list. A `TypeError`, as of everything that cannot be iterated."""


def alone(given: type | object) -> AloneError:
    """The error for an assignor, a class or an instance, where a list of assignors belongs."""
    name = given.__name__ if isinstance(given, type) else f"{type(given).__name__}(…)"
    return AloneError(f"assignors come in a list: [{name}], not {name}")


def of_aiokafka(name: str) -> str:
    """The sentence for kafka-python with an assignor of aiokafka."""
    return f"this {name} is aiokafka's; kafka-python takes those of kafka_assignors: from kafka_assignors import …"


def of_kafka_python(name: str) -> str:
    """The sentence for aiokafka with an assignor of kafka-python."""
    return (
        f"this {name} is kafka-python's; aiokafka takes instances of those of kafka_assignors.aiokafka: "
        "from kafka_assignors.aiokafka import …"
    )


class NotForAiokafka:
    """A method of an assignor for kafka-python that raises a clear error if aiokafka calls it.

    aiokafka calls ``metadata`` of any object in its list, a class included.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type) -> Callable[..., Any]:
        if sys._getframe(1).f_globals.get("__name__", "").startswith("aiokafka."):

            def refuse(*_arguments: Any) -> NoReturn:
                raise ConfigError(of_kafka_python(owner.__name__))

            return refuse
        bound: Callable[..., Any] = self.method if instance is None else self.method.__get__(instance, owner)
        return bound
