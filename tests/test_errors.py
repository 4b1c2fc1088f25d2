"""One root of errors for the distribution, and one class for errors of configuration."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module

import pytest

import kafka_assignors
from kafka_assignors import producers
from kafka_assignors.connection import read_connection
from kafka_assignors.core.strategies import strategy
from kafka_assignors.errors import KafkaAssignorsError
from kafka_assignors.integration.scenario.chaos import named
from kafka_assignors.pipeline import options

SIGNALS = {"Stop"}
"""Not errors: they pass a client's own ``except Exception``, as KeyboardInterrupt does."""


def defined() -> Iterator[type[BaseException]]:
    """Every exception class of the distribution, from all of its modules."""
    for found in pkgutil.walk_packages(kafka_assignors.__path__, "kafka_assignors."):
        if found.name.rpartition(".")[2] != "__main__":  # programs
            module = import_module(found.name)
            yield from (
                value for value in vars(module).values()
                if isinstance(value, type) and issubclass(value, BaseException) and value.__module__ == found.name
            )  # fmt: skip


def test_every_exception_class_derives_from_the_one_root() -> None:
    classes = set(defined())
    assert {cls.__name__ for cls in classes} >= {"InvalidPartition", "HarnessError", "NotKafka", "Refused", *SIGNALS}
    strange = {cls.__qualname__ for cls in classes if not issubclass(cls, KafkaAssignorsError)}
    assert strange == SIGNALS
    assert not any(issubclass(cls, Exception) for cls in classes if cls.__name__ in SIGNALS)


def test_no_two_classes_of_configuration_errors() -> None:
    """A name such as ConfigError or UnknownName means one class, wherever it is imported from."""
    assert kafka_assignors.ConfigError is producers.ConfigError
    assert kafka_assignors.KafkaAssignorsError is producers.ProducersError is KafkaAssignorsError
    named_so = {cls for cls in defined() if cls.__name__ in ("ConfigError", "UnknownName")}
    assert len(named_so) == 2
    assert all(issubclass(cls, kafka_assignors.ConfigError) for cls in named_so)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda: strategy("stiky"), id="assignor"),
        pytest.param(lambda: kafka_assignors.Group([], {"t": -1}), id="group"),
        pytest.param(lambda: producers.partition_for_key(b"k", 0), id="partitions"),
        pytest.param(lambda: producers.partitioner("nosuch"), id="partitioner"),
        pytest.param(lambda: read_connection(None, None, ["security.protokol=SSL"]), id="connection"),
        pytest.param(lambda: named("nosuch", None), id="scenario"),
        pytest.param(lambda: options.length("a while"), id="window"),
    ],
)
def test_one_except_catches_wrong_configuration_of_any_part(wrong: object) -> None:
    with pytest.raises(kafka_assignors.ConfigError):
        wrong()  # type: ignore[operator]
