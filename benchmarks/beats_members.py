"""A process with many consumers of one group, which counts their requests; `beats` runs it.

It takes a line of JSON as its argument and commands on its standard input, and answers each by a line of JSON.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as TheirAssignor

from kafka_assignors import CooperativeStickyAssignor
from kafka_assignors.clients.kafka_python import private


class _Member:
    """A consumer, polled by a thread of its own.

    `requests` has the monotonic second, the kind and the generation (-1 without one) of each request that it sent.
    """

    def __init__(self, bootstrap: str, group: str, topic: str, theirs: bool, settings: Mapping[str, Any]) -> None:
        self.requests: list[tuple[float, str, int]] = []
        self.error: str | None = None
        self.consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            partition_assignment_strategy=[TheirAssignor if theirs else CooperativeStickyAssignor],
            **settings,
        )
        manager = self.consumer._client._manager
        send: Callable[..., Any] = manager.send

        def counted(request: Any, *rest: Any, **named: Any) -> Any:
            name, at = type(request).__name__.removesuffix("Request"), time.monotonic()
            sent = send(request, *rest, **named)
            if not sent.failed():  # without a connection
                self.requests.append((at, name, getattr(request, "generation_id", -1)))
            return sent

        manager.send = counted
        threading.Thread(target=self._poll, daemon=True).start()

    def _poll(self) -> None:
        try:
            while True:
                self.consumer.poll(timeout_ms=1000)
        except Exception as error:  # told by `state`, and ends the run
            self.error = repr(error)

    @property
    def coordinator(self) -> Any:
        return self.consumer._coordinator

    def state(self) -> dict[str, Any]:
        generation, member_id = private.membership.generation(self.coordinator)
        settled = not private.membership.must_join(self.coordinator) and not private.membership.joins(self.coordinator)
        return {
            "generation": generation if settled else None,
            "member_id": member_id,
            "owned": len(self.consumer.assignment()),
            "error": self.error,
        }

    def burst(self, count: int) -> float:
        """Send heartbeats one after the other; returns the seconds that they took."""

        async def send() -> None:
            for _ in range(count):
                await self.coordinator._send_heartbeat_request()

        begun = time.monotonic()
        private.requests.run(self.coordinator, send)
        return time.monotonic() - begun


def main(given: dict[str, Any], lines: Iterable[str]) -> None:
    """Obey ``start``, ``early 0|1``, ``state``, ``read FROM UNTIL`` and ``burst COUNT`` until the input ends."""
    count = given.pop("count")
    begin: dict[str, Any] = {"1": private.beating.Beats.begin, "0": lambda _: None}
    members: list[_Member] = []
    for line in lines:
        command, *arguments = line.split()
        answer: list[Any] = []
        if command == "start":
            members += [_Member(**given) for _ in range(count)]
        elif command == "early":
            private.beating.Beats.begin = begin[arguments[0]]  # type: ignore[method-assign]
        elif command == "state":
            answer = [member.state() for member in members]
        elif command == "read":
            since, until = map(float, arguments)
            answer = [
                [request for request in tuple(member.requests) if since <= request[0] < until] for member in members
            ]
        elif command == "burst":
            answer = [member.burst(int(arguments[0])) for member in members]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.stdin)
