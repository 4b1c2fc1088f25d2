"""Light members: one connection, no fetching. Hundreds of generations per minute need no process per member.

The coordinator is real, and it stores what they send as it stores any client's bytes. They speak the classic protocol
with Kafka's messages (JoinGroup 5, SyncGroup 3, Heartbeat 3, LeaveGroup 3, OffsetCommit 7). As a leader, a member
assigns with our strategy of the elected name; as a follower it takes what any leader gives it.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Callable, Collection, Mapping

from kafka_assignors.core.group import NO_GENERATION, TopicPartition
from kafka_assignors.core.reading import replay
from kafka_assignors.core.wire.primitives import Reader
from kafka_assignors.core.wire.protocol import (
    AssignedPartitions,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from kafka_assignors.core.wire.userdata import encode_cooperative, encode_sticky

_COMMIT, _COORDINATOR, _JOIN, _HEARTBEAT, _LEAVE, _SYNC = 8, 10, 11, 12, 13, 14
_VERSIONS = {_COMMIT: 7, _COORDINATOR: 2, _JOIN: 5, _HEARTBEAT: 3, _LEAVE: 3, _SYNC: 3}
_MOVED, _LOADING, _ILLEGAL, _UNKNOWN_MEMBER, _REBALANCE, _ID_REQUIRED = 16, 14, 22, 25, 27, 79
_COOPERATIVE = "cooperative-sticky"
_COMMIT_S = 1.0


class LightMember:
    """A member of a group; runs as a task from `start` until `leave` or `kill`.

    Args:
        address: Host and port of a broker, which names the coordinator.
        client_id: Its client id; the coordinator makes its member id of it.
        topics: Its subscription.
        assignor: The only assignor that it offers.
        counts: Asked by a leader: topic -> partition count.
        instance_id: Makes it a static member.
        session_ms, heartbeat_s: Its timeouts.

    Attributes:
        generation: Of its last assignment.
        stable: Whether it has that assignment and asks for no other.
        owned: Its partitions.
        led: The last generation that it assigned as the leader.
        expelled: Whether the coordinator removed it unasked: it was too slow.
    """

    def __init__(
        self, address: tuple[str, int], group: str, client_id: str, topics: Collection[str], assignor: str,
        counts: Callable[[], Mapping[str, int]], *, instance_id: str | None = None, session_ms: int = 6000,
        heartbeat_s: float = 0.2,
    ) -> None:  # fmt: skip  # as many as a consumer's settings
        self._address, self._group, self.client_id = address, group, client_id
        self.topics, self._assignor, self._counts = frozenset(topics), assignor, counts
        self.instance_id, self._session_ms, self._heartbeat_s = instance_id, session_ms, heartbeat_s
        self.member_id, self.generation, self.led = "", NO_GENERATION, NO_GENERATION
        self.owned: frozenset[TopicPartition] = frozenset()
        self.stable, self.expelled = False, False
        self._wanted = False
        self._task: asyncio.Task[None] | None = None
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    def start(self) -> None:
        """Join in the background."""
        self._task = asyncio.create_task(self._run(), name=f"{self._group}/{self.client_id}")

    def rejoin(self, topics: Collection[str] | None = None) -> None:
        """Join again, maybe with another subscription."""
        if topics is not None:
            self.topics = frozenset(topics)
        self._wanted, self.stable = True, False

    async def leave(self) -> None:
        """Ask to leave, and end."""
        await self._end()
        self._close()  # a heartbeat may be unanswered on it
        self._streams = await asyncio.open_connection(*self._address)
        await self._ask(_LEAVE, _text(self._group) + struct.pack(">i", 1) + self._identity())
        self._close()

    async def kill(self) -> None:
        """End without a word: the coordinator waits for the session timeout."""
        await self._end()
        self._close()

    def failure(self) -> BaseException | None:
        """Why its task ended unasked; None if it runs or was ended."""
        done = self._task is not None and self._task.done() and not self._task.cancelled()
        return self._task.exception() if done and self._task is not None else None

    async def _end(self) -> None:
        self.stable = False
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def _close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _run(self) -> None:
        await self._find()
        while True:
            self.stable, self._wanted = False, False
            if not await self._join():
                continue
            loop = asyncio.get_running_loop()
            committed = loop.time()
            while not self._wanted:
                await asyncio.sleep(self._heartbeat_s)
                if self._wanted:
                    break
                error = await self._heartbeat()
                if error:
                    self._lost(error)
                    break
                if loop.time() - committed >= _COMMIT_S and self.owned:
                    committed = loop.time()
                    await self._commit()

    async def _find(self) -> None:
        """Connect to the coordinator; the first to ask for one makes the broker create the coordinator's log."""
        while True:
            self._streams = await asyncio.open_connection(*self._address)
            read = await self._ask(_COORDINATOR, _text(self._group) + b"\0")
            error, _, _node, host, port = (
                read.int16(), read.string_or_none(), read.int32(), read.string(), read.int32()
            )  # fmt: skip
            if not error and (host, port) == self._address:
                return
            self._close()
            if error:
                await asyncio.sleep(0.2)
            else:
                self._address = (host, port)

    def _lost(self, error: int) -> None:
        if error in (_UNKNOWN_MEMBER, _ILLEGAL):
            self.expelled = True
            self.member_id, self.owned, self.generation = "", frozenset(), NO_GENERATION
        elif error not in (_REBALANCE, _MOVED, _LOADING):
            raise RuntimeError(f"{self.client_id}: the coordinator answered with error {error}")

    async def _join(self) -> bool:
        """Join and sync; whether it has an assignment now."""
        data = encode_subscription(self._subscription())
        body = _text(self._group) + struct.pack(">ii", self._session_ms, max(60_000, self._session_ms))
        body += self._identity() + _text("consumer") + struct.pack(">i", 1) + _text(self._assignor) + _bytes(data)
        read = await self._ask(_JOIN, body)
        error, generation, _elected = read.int16(), read.int32(), read.string_or_none()
        leader, member_id = read.string_or_none(), read.string()
        if error == _ID_REQUIRED:
            self.member_id = member_id
            return False
        if error:
            self._lost(error)
            await asyncio.sleep(0.05)
            return False
        self.member_id = member_id
        joined = [(read.string(), read.string_or_none(), read.bytes_or_none() or b"") for _ in range(read.count())]
        given = b""
        if leader == member_id:
            self.led, given = generation, self._assign(joined)
        body = _text(self._group) + struct.pack(">i", generation) + self._identity()
        read = await self._ask(_SYNC, body + (given or struct.pack(">i", 0)))
        error, data = read.int16(), read.bytes_or_none() or b""
        if error:
            self._lost(error)
            return False
        self._take(generation, data)
        return True

    def _take(self, generation: int, data: bytes) -> None:
        assigned = decode_assignment(data).partitions if data else {}
        owned = frozenset(TopicPartition(t, p) for t, ids in assigned.items() for p in ids)
        # A cooperative member revokes what it isn't given any more, and joins again so that others get it (KIP-429).
        self._wanted = self._wanted or (self._assignor == _COOPERATIVE and bool(self.owned - owned))
        self.owned, self.generation = owned, generation
        self.stable = not self._wanted

    def _subscription(self) -> Subscription:
        topics = tuple(sorted(self.topics))
        if self._assignor == _COOPERATIVE:
            owned = [tp for tp in sorted(self.owned) if tp.topic in self.topics]
            return Subscription(topics, encode_cooperative(self.generation), owned, self.generation)
        if self._assignor == "sticky":
            return Subscription(topics, encode_sticky(self.owned, self.generation) if self.owned else None)
        return Subscription(topics)

    def _assign(self, joined: Collection[tuple[str, str | None, bytes]]) -> bytes:
        answers = replay(self._assignor, joined, self._counts())
        out = struct.pack(">i", len(answers))
        for member_id, partitions in answers.items():
            out += _text(member_id) + _bytes(encode_assignment(AssignedPartitions(partitions)))
        return out

    async def _heartbeat(self) -> int:
        body = _text(self._group) + struct.pack(">i", self.generation) + self._identity()
        return (await self._ask(_HEARTBEAT, body)).int16()

    async def _commit(self) -> None:
        body = _text(self._group) + struct.pack(">i", self.generation) + self._identity()
        topics: dict[str, list[int]] = {}
        for tp in self.owned:
            topics.setdefault(tp.topic, []).append(tp.partition)
        body += struct.pack(">i", len(topics))
        for topic, ids in topics.items():
            body += _text(topic) + struct.pack(">i", len(ids))
            for partition in ids:
                body += struct.pack(">iqi", partition, 0, -1) + _text(None)
        await self._ask(_COMMIT, body)  # refused in a rebalance: the next heartbeat tells

    def _identity(self) -> bytes:
        return _text(self.member_id) + _text(self.instance_id)

    async def _ask(self, api: int, body: bytes) -> Reader:
        """The answer after the throttle time."""
        assert self._streams is not None
        reader, writer = self._streams
        request = struct.pack(">hhi", api, _VERSIONS[api], 1) + _text(self.client_id) + body
        writer.write(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        answer = Reader(await reader.readexactly(size), "answer")
        answer.take(8)
        return answer


def _text(value: str | None) -> bytes:
    return b"\xff\xff" if value is None else struct.pack(">h", len(value.encode())) + value.encode()


def _bytes(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value
