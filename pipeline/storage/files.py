"""Files and folders on every file system that Spark can write to, by Hadoop's API."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


class Files:
    """File operations on paths and URIs in Spark's syntax."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsc.hadoopConfiguration()
        self._path: Any = self._jvm.org.apache.hadoop.fs.Path  # each name of a package is a call into the JVM

    def _at(self, where: str) -> tuple[Any, Any]:
        path = self._path(where)
        return path.getFileSystem(self._conf), path

    def exists(self, where: str) -> bool:
        """Whether a file or folder exists."""
        system, path = self._at(where)
        return bool(system.exists(path))

    def children(self, folder: str) -> list[str]:
        """Names in a folder, sorted; empty if there is no folder."""
        system, path = self._at(folder)
        if not system.exists(path):
            return []
        return sorted(status.getPath().getName() for status in system.listStatus(path))

    def size(self, where: str) -> int:
        """Bytes in a file, or in all files below a folder; 0 if it does not exist."""
        system, path = self._at(where)
        return int(system.getContentSummary(path).getLength()) if system.exists(path) else 0

    def make(self, folder: str) -> None:
        """Create a folder and its parents."""
        system, path = self._at(folder)
        system.mkdirs(path)

    def delete(self, where: str) -> None:
        """Delete a file or a folder with its content, if it exists."""
        system, path = self._at(where)
        system.delete(path, True)

    def move(self, source: str, target: str) -> None:
        """Rename within one file system. Raises `OSError` if the file system rejects it."""
        system, path = self._at(source)
        if not system.rename(path, self._at(target)[1]):
            raise OSError(f"{source} cannot be moved to {target}")

    def read(self, file: str) -> str | None:
        """Read a small text file; None if it does not exist."""
        system, path = self._at(file)
        if not system.exists(path):
            return None
        stream = system.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, file: str, text: str) -> None:
        """Replace a small text file."""
        system, path = self._at(file)
        stream = system.create(path, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
