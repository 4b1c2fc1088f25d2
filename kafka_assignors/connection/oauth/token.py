"""One token: its text, when it expires, and whom it stands for."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import AccessRefused

_FAR = 100_000_000_000
"""A time in seconds beyond this (the year 5138) is one in milliseconds."""


@dataclass(frozen=True)
class Token:
    """A bearer token. No representation shows it.

    Args:
        value: Its text, as the broker gets it.
        expires_at: Seconds since the epoch.
        subject: Whom it stands for, as the broker reads it from the claim ``sub``; None: it doesn't say.
        extensions: SASL extensions that the source gives with it.
    """

    value: str = field(repr=False)
    expires_at: float
    subject: str | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)


def claims(value: str) -> dict[str, Any]:
    """The claims of a JWT, unverified (the broker verifies them); empty if it is none. Source: RFC 7519, section 3."""
    parts = value.split(".")
    if len(parts) != 3:
        return {}
    try:
        decoded = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}


def token(value: object, lifetime_s: object, now: float, source: str) -> Token:
    """The token in an answer. `lifetime_s` is how long it is valid, None: the token itself says when it expires.

    Raises:
        AccessRefused: It isn't a token, has expired, or nothing says when it does. The message has no token.
    """
    if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable() or " " in value:
        raise AccessRefused(f"{source} gave no token: a token is text without blanks")
    own = claims(value)
    end = own.get("exp") if lifetime_s is None else lifetime_s
    try:
        expires_at = float(str(end)) + (0 if lifetime_s is None else now)
        if not math.isfinite(expires_at):
            raise ValueError
    except ValueError:
        raise AccessRefused(
            f"{source} doesn't say when its token expires: it has no expires_in, and the token is no JWT with exp"
        ) from None
    if expires_at <= now:
        raise AccessRefused(
            f"{source} gave a token that expired {now - expires_at:.0f} s ago; check this machine's clock and that of "
            "the token's issuer"
        )
    subject = own.get("sub")
    return Token(value, expires_at, subject if isinstance(subject, str) else None)


def of_answer(answer: object, now: float, source: str) -> Token:
    """The token that a function of the user returned, in the form of confluent-kafka's ``oauth_cb``.

    Args:
        answer: A JWT, or ``(token, expiry[, principal[, extensions]])`` with the expiry in seconds since the epoch.
        now: Seconds since the epoch.
        source: Who gave it, for messages.

    Raises:
        AccessRefused: It has another form, or the token has expired.
    """
    if isinstance(answer, str):
        return token(answer, None, now, source)
    if not isinstance(answer, tuple | list) or len(answer) not in (2, 3, 4):
        raise AccessRefused(
            f"{source} returned {type(answer).__name__}; return (token, expiry in seconds since the epoch), or a JWT"
        )
    value, end, *more = answer
    try:
        expires_at = float(end)
    except (TypeError, ValueError):
        raise AccessRefused(f"{source} returned an expiry that is no number of seconds since the epoch") from None
    if expires_at > _FAR:
        raise AccessRefused(
            f"{source} returned an expiry in milliseconds; return seconds since the epoch: divide it by 1000"
        )
    of_value = token(value, expires_at - now, now, source)
    extensions = more[1] if len(more) > 1 and isinstance(more[1], Mapping) else {}
    principal = more[0] if more and isinstance(more[0], str) and more[0] else None
    named = {str(name): str(text) for name, text in extensions.items()}
    return Token(of_value.value, expires_at, of_value.subject or principal, named)
