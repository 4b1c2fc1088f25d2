"""Load, skew and ownership from topics, histories and the coordinator's log, computed by Spark.

`analyze` returns the tables as lazy DataFrames, for notebooks; ``python -m kafka_assignors.pipeline run`` writes them.
Importing this package does not import Spark: names are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .analysis import Tables, analyze
    from .sources.brokers import Part
    from .sources.snapshot import Source

_MODULES = {"Part": ".sources.brokers", "Source": ".sources.snapshot", "Tables": ".analysis", "analyze": ".analysis"}

__all__ = ["Part", "Source", "Tables", "analyze"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
