"""A Python without some packages: those that decompress, SciPy, a client."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

CODEC_PACKAGES = ("snappy", "zstandard", "lz4", "lz4f", "lz4framed", "cramjam")


def without_codecs(folder: Path, also: Iterable[str] = ()) -> str:
    """A folder for PYTHONPATH that hides the packages that decompress, and `also`."""
    return without(folder, (*CODEC_PACKAGES, *also))


def without(folder: Path, packages: Iterable[str]) -> str:
    """A folder for PYTHONPATH that hides packages: an import of one fails as if it were not installed."""
    lines = ["import sys", *(f"sys.modules[{name!r}] = None" for name in packages)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text("\n".join(lines) + "\n", "utf-8")
    return str(folder)
