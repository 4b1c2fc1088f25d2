"""The options of ``test`` that name a user's own service, checked."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from kafka_assignors.errors import ConfigError

from ..members.service import MOST_PARTITIONS, Asking, Service, is_topic, service_of
from ..records.own import is_function, maker, matcher
from ..records.sender import Values

_ASKING = Asking("--service", "--env NAME=…", "on an existing broker it may only read what the run makes")


@dataclass(frozen=True)
class AskedService:
    """The options that belong to ``--service``, as typed."""

    command: str | None
    replicas: int | None
    topics: tuple[str, ...]
    group: str | None
    records: str | None
    environment: tuple[str, ...]
    output: str | None = None
    exactly_once: bool = False
    match: str | None = None

    @property
    def given(self) -> bool:
        """Whether a service plays.

        Raises:
            ConfigError: An option is given that needs one.
        """
        if self.command is not None:
            return True
        if without := [*(name for name, _ in self._values()), *["--exactly-once"][: self.exactly_once]]:
            raise ConfigError(
                f"{without[0]} needs --service COMMAND, the command that starts one process of your service; add it, "
                f"or remove {without[0]}"
            )
        return False

    @property
    def words(self) -> list[str]:
        """The options again, as words of a command line."""
        given = [] if self.command is None else [("--service", self.command)]
        words = [word for option in (*given, *self._values()) for word in option]
        return [*words, "--exactly-once"] if self.exactly_once else words

    def require_alone(self, assignors: Collection[str], client: str | None) -> None:
        """Check that nothing else chooses what the members are.

        Raises:
            ConfigError: `assignors` or `client` are given.
        """
        given = [*(f"--assignor {name}" for name in assignors), *([] if client is None else [f"--client {client}"])]
        if given:
            raise ConfigError(
                f"{given[0]} is for members of the harness, and a service chooses its own; remove it, or --service"
            )

    def service(self, *, existing: bool, network_faults: bool = False) -> Service:
        """How to start a process of the service, as `service_of`, for which an `existing` broker is a shared one.

        Raises:
            ConfigError: As of `service_of`; or the function that matches outputs isn't found.
        """
        for text in self.environment:
            if "=" not in text[1:]:
                raise ConfigError(f"--env {text!r} is not NAME=VALUE, such as REGION=eu")
        environment = dict(text.split("=", 1) for text in self.environment)
        service = service_of(self.command or "", environment, _ASKING, shared=existing, network_faults=network_faults)
        if self.output is not None and existing and not service.takes("{output}"):
            raise ConfigError(
                f"--service {self.command!r}: on an existing broker it may only write what the run makes; "
                f"{_ASKING.adding('{output}')}"
            )
        match = None if self.match is None else matcher("--match", self.match)
        return replace(service, exactly_once=self.exactly_once, match=match)

    def group_named(self, default: str) -> str:
        """The group of the service.

        Raises:
            ConfigError: It is empty.
        """
        if self.group is not None and not self.group.strip():
            raise ConfigError(f"--group {self.group!r} is empty; name the group of your service, or remove it")
        return self.group or default

    def leaves_group_open(self, service: Service) -> bool:
        """Whether neither an option nor the command names the group: the service does, and the run must find it."""
        return self.group is None and not service.takes("{group}")

    def topic_counts(self) -> dict[str, int]:
        """Topic -> partition count; empty: the scenario's topics.

        Raises:
            ConfigError: A text isn't NAME:PARTITIONS, or a topic is given twice.
        """
        counts: dict[str, int] = {}
        for text in self.topics:
            name, count = _topic("--topic", text)
            if name in counts:
                raise ConfigError(f"--topic {text!r}: topic {name!r} is given twice; remove one")
            counts[name] = count
        return counts

    def output_topic(self) -> tuple[str, int] | None:
        """The topic of its outputs, and its partition count; None: outputs are not judged.

        Raises:
            ConfigError: The text isn't NAME:PARTITIONS, the values of the records are lines of a file, so that an
                output can't be told to be of one of them, or a promise is made without an output.
        """
        if self.output is None:
            if self.exactly_once:
                raise ConfigError("--exactly-once needs --output NAME:PARTITIONS, the topic of the outputs")
            if self.match is not None:
                raise ConfigError(f"--match {self.match} needs --output NAME:PARTITIONS, the topic of the outputs")
            return None
        if self.records is not None and not self._makes_records:
            raise ConfigError(
                f"--output {self.output} needs records with an id, which is looked for in the outputs, and lines of a "
                "file have none; give --records module:function, which puts the id that it gets into a record, or "
                f"remove --records {self.records}"
            )
        return _topic("--output", self.output)

    @property
    def _makes_records(self) -> bool:
        """Whether a function makes the records, and no file has them."""
        return self.records is not None and is_function(self.records) and not Path(self.records).exists()

    def values(self) -> Values:
        """The lines of the file of records, or what makes them; empty without one.

        Raises:
            ConfigError: The file can't be read, or has no line; the function isn't found, or makes no records.
        """
        if self.records is None:
            return []
        if self._makes_records:
            return maker("--records", self.records)
        try:
            lines = Path(self.records).read_bytes().splitlines()
        except OSError as error:
            raise ConfigError(
                f"--records {self.records}: {error.strerror}; name a file with the value of one record per line, or a "
                "function of yours as module:function"
            ) from error
        if not lines:
            raise ConfigError(f"--records {self.records} has no line; write the value of one record into each")
        return lines

    def _values(self) -> list[tuple[str, str]]:
        """The options beside the command that are given, each with its value."""
        single = (
            ("--replicas", self.replicas), ("--group", self.group), ("--records", self.records),
            ("--output", self.output), ("--match", self.match),
        )  # fmt: skip
        repeated = (("--topic", self.topics), ("--env", self.environment))
        return [
            *((name, str(value)) for name, value in single if value is not None),
            *((name, value) for name, values in repeated for value in values),
        ]


def _topic(option: str, text: str) -> tuple[str, int]:
    """A topic and its partition count. ConfigError if the text isn't NAME:PARTITIONS."""
    name, _, count = text.rpartition(":")
    if not count.isdecimal() or not is_topic(name, int(count)):
        raise ConfigError(
            f"{option} {text!r} is not NAME:PARTITIONS, such as orders:12, with 1 to {MOST_PARTITIONS:,} "
            "partitions, and letters, digits, '.', '_' or '-' in the name"
        )
    return name, int(count)
