"""Wraps modules as they are imported."""

from __future__ import annotations

import sys

from .record import say

TYPE_CHECKING = False  # as in `record`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class _Loader:
    """Loads a module by the module's own loader, then wraps it. Modules may share a loader, so no loader is changed."""

    def __init__(self, spec: Any, wrap: Callable[[Any], None]) -> None:
        self._spec, self._original, self._wrap = spec, spec.loader, wrap

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def create_module(self, spec: Any) -> Any:
        return self._original.create_module(spec)

    def exec_module(self, module: Any) -> None:
        """Execute the module by its own loader, then wrap it. The module does not show this loader."""
        module.__loader__ = self._spec.loader = self._original
        self._original.exec_module(module)
        try:
            self._wrap(module)
        except Exception as error:
            say(f"{module.__name__} is not recorded: {error!r}")


class Wrapping:
    """Wraps modules right after their import; they are found and loaded as usual."""

    def __init__(self, wrappers: Any) -> None:
        self._wrappers = wrappers

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec of a module that is wrapped; None for all others."""
        wrap = self._wrappers.get(name)
        if wrap is None:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec, wrap)
                else:
                    say(f"{name} is not recorded: its loader is {type(spec.loader).__name__}")
                return spec
        return None
