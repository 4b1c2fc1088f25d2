"""Classes whose options are keywords: a misspelt one is refused with a message that lists all that exist."""

from __future__ import annotations

from abc import ABCMeta
from inspect import Parameter, Signature, signature
from typing import Any

from .errors import ConfigError


class KeywordOptions(ABCMeta):
    """The class of assignor classes. It hides no signature: ``help``, IDEs and type checkers see ``__init__``'s."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an instance; raises `ConfigError` for a keyword that ``__init__`` doesn't have."""
        known = cls.__signature__.parameters
        if not any(each.kind is Parameter.VAR_KEYWORD for each in known.values()):
            for option in kwargs:
                if option not in known:
                    raise ConfigError(f"{cls.__name__} has no option {option!r}; it has {', '.join(known)}")
        return super().__call__(*args, **kwargs)

    @property
    def __signature__(cls) -> Signature:
        """That of ``__init__``; `inspect` would take that of ``__call__`` here."""
        whole = signature(cls.__init__)  # type: ignore[misc]
        return whole.replace(parameters=[*whole.parameters.values()][1:])
