"""A group's records in the coordinator's log, built by hand: generations and commits with the broker's clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.wire.protocol import AssignedPartitions, Subscription, encode_assignment, encode_subscription
from kafka_assignors.history.coordinator_log import CommittedMember, GroupCommitted, OffsetCommitted
from kafka_assignors.history.generations import Log, Logged

SESSION_MS = 6_000


@dataclass
class LogStory:
    """Builds a log; the clock advances by `wait`."""

    protocol: str = "range"
    ms: int = 1_000_000
    generation: int = 0
    records: list[Logged] = field(default_factory=list)
    held: dict[str, list[int]] = field(default_factory=dict)

    def wait(self, seconds: float) -> LogStory:
        self.ms += round(1000 * seconds)
        return self

    def given(
        self,
        owned: Mapping[str, Sequence[int]],
        *,
        topics: Mapping[str, Sequence[str]] | None = None,
        ids: Mapping[str, str] | None = None,
        hosts: Mapping[str, int] | None = None,
        static: Sequence[str] = (),
        cooperative: bool = False,
        rack: str | None = None,
        join_ms: int = 20,
    ) -> LogStory:
        """A generation: client id -> partitions of topic ``t``; `ids`: client id -> another member id than usual;
        `hosts`: client id -> the last part of its address, its place by default."""
        self.generation += 1
        members = tuple(
            CommittedMember(
                (ids or {}).get(client, f"{client}-0"), client if client in static else None, client,
                f"/10.0.0.{(hosts or {}).get(client, n)}", 300_000, SESSION_MS,
                encode_subscription(
                    Subscription(
                        tuple((topics or {}).get(client, ("t",))),
                        owned=[TopicPartition("t", p) for p in self.held.get(client, ())] if cooperative else (),
                        rack=rack,
                    )
                ),
                encode_assignment(AssignedPartitions({"t": tuple(partitions)} if partitions else {})),
            )
            for n, (client, partitions) in enumerate(owned.items(), 1)
        )  # fmt: skip
        leader = members[0].member_id if members else None
        value = GroupCommitted(
            "g", "consumer", self.generation, self.protocol if members else None, leader, self.ms - join_ms, members
        )
        self.records.append(Logged(self.ms, value))
        self.held = {client: list(partitions) for client, partitions in owned.items()}
        return self

    def commit(self, *partitions: int) -> LogStory:
        self.records += [Logged(self.ms, OffsetCommitted("g", "t", p, 1, -1, self.ms)) for p in partitions]
        return self

    @property
    def log(self) -> Log:
        return Log(tuple(self.records), True)
