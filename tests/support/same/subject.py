"""One draw: a consumer, the calls that are made of it, and their outcomes as text."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

RECORDS = 12
"""Records in partition 0 of each draw's first topic; partition 1 and the second topic have none."""
LIMIT_S = 60
"""Seconds until a call counts as one that does not end."""
END = "the end"
"""The last call of each draw."""
NOBODY = "127.0.0.1:1"
"""Where no broker listens."""
OWN, OTHER, NONE = "own", "another", "none"
"""The consumer's group: the one that is recorded, another, none."""
_VARYING = (
    (re.compile(r"\b0x[0-9a-f]+\b"), "ADDRESS"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<=port=)\d+|(?<=localhost:)\d+"), "PORT"),
    (re.compile(r"\b1[67]\d{11}\b"), "TIME"),
    (re.compile(r"\b\d+\.\d+(?= ?(s|ms|sec|seconds)\b)"), "DURATION"),
    (re.compile(r"(?<=generation_id=)\d+"), "GENERATION"),
    # The recorder's classes are subclasses, and Python names a subclass without its module in these errors.
    (re.compile(r"'cimpl\.(Consumer|Producer)' object"), r"'\1' object"),
)
"""What differs between two runs of the same."""
_SET = re.compile(r"\{TopicPartition\([^{}]*\)\}")


class CallHasNoEnd(BaseException):
    """A call was not over within its limit."""


class Subject:
    """A consumer under drawn calls; a client's own stands on it.

    Args:
        address: Of the broker; one where nobody listens, for calls that need none.
        group: The group that is recorded.
        topic: It reads ``TOPIC-a`` and ``TOPIC-b``, and its producer writes to ``TOPIC-c``.
        settings: Drawn; see `SETTINGS` of the client.
    """

    def __init__(self, address: str, group: str, topic: str, settings: Mapping[str, Any]) -> None:
        self.address, self.topic, self.other, self.outputs = address, f"{topic}-a", f"{topic}-b", f"{topic}-c"
        self.settings, self.is_offline = settings, address == NOBODY
        self.group = {OWN: group, OTHER: f"{group}-other", NONE: None}[settings["group"]]
        self.callbacks: list[Any] = []
        self.is_closed = False

    def note(self, callback: str, *given: Any) -> None:
        """A callback was called."""
        self.callbacks.append([callback, *map(self.text, given)])

    def text(self, value: Any) -> str:
        """A value as text, without what varies."""
        text = self.shown(value)
        for topic, word in ((self.topic, "TOPIC"), (self.other, "OTHER TOPIC"), (self.outputs, "OUTPUT TOPIC")):
            text = text.replace(topic, word)
        for pattern, word in _VARYING:
            text = pattern.sub(word, text)
        text = _SET.sub(lambda found: str(sorted(re.findall(r"TopicPartition\([^()]*\)", found[0]))), text)
        return text if self.group is None else text.replace(self.group, "GROUP")

    def shown(self, value: Any) -> str:
        """A value as text."""
        if isinstance(value, dict):
            return (
                "{" + ", ".join(sorted(f"{self.shown(key)}: {self.shown(part)}" for key, part in value.items())) + "}"
            )
        if isinstance(value, (set, frozenset)):
            return f"{type(value).__name__} of {sorted(map(self.shown, value))}"
        if type(value) in (list, tuple):
            return f"{type(value).__name__} of [{', '.join(map(self.shown, value))}]"
        return f"{type(value).__name__} {value!r}"

    def outcome(self, call: Callable[[Any], Any]) -> list[Any]:
        """What a call returned or raised, and the callbacks that ran meanwhile."""
        self.callbacks = []
        signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
        try:
            outcome = ["returned", self.text(call(self))]
        except:  # noqa: E722 - confluent-kafka raises its KafkaError out of a poll, which is no BaseException
            kind, error, _ = sys.exc_info()
            others = (getattr(error, name, None) for name in ("__cause__", "__context__"))
            # Out of a callback the client raises the one for the other, unless a frame between has a handler.
            outcome = [
                "raised",
                getattr(kind, "__name__", "").replace("KafkaError", "KafkaException"),
                self.text(str(error)),
                *(type(o).__name__ for o in others),
            ]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return [*outcome, self.callbacks]

    def end(self) -> None:
        """Close what the draw left open."""
        raise NotImplementedError


def drawn_calls(names: Iterable[str], table: Mapping[str, Callable[[Any], Any]]) -> Iterator[tuple[str, Any]]:
    """The calls of a draw, and at last the end."""
    yield from ((name, table[name]) for name in names)
    yield END, lambda subject: subject.end()


def make_calls(kind: type[Subject], table: Mapping[str, Callable[[Any], Any]]) -> None:
    """Read draws from standard input, make their calls, and print a line for each."""

    def over(*_: Any) -> None:
        raise CallHasNoEnd

    signal.signal(signal.SIGALRM, over)
    asked = json.load(sys.stdin)
    for draw in asked["draws"]:
        subject = kind(asked["bootstrap"], asked["group"], draw["topic"], draw["settings"])
        for name, call in drawn_calls(draw["calls"], table):
            print(json.dumps([draw["seed"], name, *subject.outcome(call)]), flush=True)
