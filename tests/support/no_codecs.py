"""A Python without the packages that decompress."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

CODEC_PACKAGES = ("snappy", "zstandard", "lz4", "lz4f", "lz4framed", "cramjam")


def without_codecs(folder: Path, also: Iterable[str] = ()) -> str:
    """A folder for PYTHONPATH that hides these packages and `also`."""
    lines = ["import sys", *(f"sys.modules[{name!r}] = None" for name in (*CODEC_PACKAGES, *also))]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text("\n".join(lines) + "\n", "utf-8")
    return str(folder)
