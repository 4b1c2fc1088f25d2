"""Kafka's primitive types, read from bytes. All integers are big endian."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ...errors import WireError

Item = TypeVar("Item")
Flexible = TypeVar("Flexible", bound="FlexibleReader")
_NO_TAGS: Mapping[int, tuple[str, Callable[[Any], Any]]] = {}


class Reader:
    """Reads Kafka's primitive types from bytes, front to back. Every method raises WireError if the bytes end early.

    A string is int16 length + UTF-8, bytes are int32 length + content, an array is int32 count + elements. Length -1
    means null in nullable fields. `what` is the structure's name, for errors.
    """

    def __init__(self, data: bytes, what: str, offset: int = 0) -> None:
        self.data, self.what, self.offset = data, what, offset

    def take(self, size: int) -> bytes:
        """Read `size` bytes."""
        chunk = self.data[self.offset : self.offset + size]
        if len(chunk) != size:
            raise WireError(
                f"{self.what} is cut off: {size} bytes expected at offset {self.offset}, {len(chunk)} there "
                f"(of {len(self.data)})"
            )
        self.offset += size
        return chunk

    def int8(self) -> int:
        """Read an 8-bit integer."""
        return int.from_bytes(self.take(1), "big", signed=True)

    def int16(self) -> int:
        """Read a 16-bit integer."""
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        """Read a 32-bit integer."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        """Read a 64-bit integer."""
        return int.from_bytes(self.take(8), "big", signed=True)

    def count(self, element_size: int = 1) -> int:
        """Read the length of an array whose elements take at least `element_size` bytes each."""
        count = self.int32()
        if count < 0 or count * element_size > len(self.data) - self.offset:
            raise WireError(
                f"{self.what} announces {count} elements at offset {self.offset - 4}, "
                f"{len(self.data) - self.offset} bytes are left"
            )
        return count

    def string(self) -> str:
        """Read a string that may not be null."""
        at = self.offset
        value = self.string_or_none()
        if value is None:
            raise WireError(f"{self.what} has null for a name at offset {at}")
        return value

    def string_or_none(self) -> str | None:
        """Read a nullable string."""
        return self._text(self.int16())

    def bytes_or_none(self) -> bytes | None:
        """Read nullable bytes."""
        size = self.int32()
        return None if size < 0 else bytes(self.take(size))

    def _text(self, size: int) -> str | None:
        """UTF-8 of `size` bytes; null if that is below 0."""
        if size < 0:
            return None
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise WireError(f"{self.what} has a name that is not UTF-8 at offset {self.offset - size}") from error


class FlexibleReader(Reader):
    """Reads also the compact forms of strings, bytes and arrays, and tagged fields, if it is `flexible` (KIP-482)."""

    def __init__(self, data: bytes, what: str, offset: int = 0, *, flexible: bool = False) -> None:
        super().__init__(data, what, offset)
        self.flexible = flexible

    def varint(self) -> int:
        """Read an unsigned integer of variable length, of at most 35 bits."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise WireError("varint of more than 5 bytes")

    def string_or_none(self) -> str | None:
        """Read a nullable string."""
        return self._text(self.varint() - 1 if self.flexible else self.int16())

    def bytes(self) -> bytes:
        """Read bytes; empty if they are null."""
        n = self.varint() - 1 if self.flexible else self.int32()
        return b"" if n == -1 else self.take(n)

    def array(self: Flexible, item: Callable[[Flexible], Item]) -> list[Item]:
        """Read an array of what `item` reads; empty if it is null."""
        return self.array_or_none(item) or []

    def array_or_none(self: Flexible, item: Callable[[Flexible], Item]) -> list[Item] | None:
        """Read a nullable array of what `item` reads."""
        n = self.varint() - 1 if self.flexible else self.int32()
        # An element takes at least one byte, so a larger count is invalid; reject it early.
        if n > len(self.data):
            raise WireError(f"array of {n} elements in {len(self.data)} bytes")
        return None if n < 0 else [item(self) for _ in range(n)]

    def tags(self, readers: Mapping[int, tuple[str, Callable[[Any], Any]]] = _NO_TAGS) -> dict[str, Any]:
        """Read tagged fields: those in `readers` (tag -> name, how to read it); others are passed over."""
        fields: dict[str, Any] = {}
        for _ in range(self.varint() if self.flexible else 0):
            tag, size = self.varint(), self.varint()
            inner = type(self)(self.take(size), self.what, flexible=True)
            if tag in readers:
                name, read = readers[tag]
                fields[name] = read(inner)
        return fields
