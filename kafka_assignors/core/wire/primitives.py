"""Kafka's primitive types, read from bytes. All integers are big endian."""

from __future__ import annotations

from ...errors import WireError


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
