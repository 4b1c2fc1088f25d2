"""The options that members send each other, and the choice between them if they differ.

The leader may not know the other members' options, but during a rolling change of options leaders should compute the
same assignment. So each member sends its options as a short text. The options that more than half of the members send
are in effect, under any leader; otherwise the leader's own are. So no single member decides for others.

A member sends its non-default options as JSON with sorted keys, or nothing if there are none, as other clients do. A
text of more than `MOST` bytes is replaced by its digest, because one record of the coordinator's log contains the
copies of all members. What each member sets for itself (its capacity, its weights) isn't in the text, and neither is
what makes a leader raise an error.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from .facts import Fact, some

MOST = 512
"""Maximum bytes of options per member: the options of a thousand members fit into a record of one megabyte."""
DIGEST = "sha256:"


def finite(value: Any) -> float | None:
    """A number as a float; None if it is something else, a bool, or no finite float."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:  # an int of 309 digits or more
        return None
    return number if math.isfinite(number) else None


def tell(options: Mapping[str, Any]) -> bytes:
    """Encode options, JSON values without the defaults, for user data; b"" if there are none."""
    if not options:
        return b""
    text = _canonical(options).encode()
    return text if len(text) <= MOST else (DIGEST + hashlib.sha256(text).hexdigest()[:16]).encode()


def read(option_bytes: bytes) -> Mapping[str, Any] | None:
    """Decode the options that a member sent; None for a digest, ValueError for what is neither."""
    if len(option_bytes) > MOST:
        raise ValueError(f"{len(option_bytes):,} bytes; the limit is {MOST}")
    text = option_bytes.decode()
    if text.startswith(DIGEST):
        return None
    try:
        options = json.loads(text, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(options, dict):
        raise ValueError("not a JSON object")
    return options


def differ(senders: Mapping[bytes, Sequence[str]], most: bytes | None, winner: Mapping[str, Any]) -> Fact:
    """The fact that members have different options; `read` accepts each key of `senders`.

    `most` are the options of more than half of the members, or None. `winner` are in effect: these or the leader's.
    """
    options_of = {option_bytes: (read(option_bytes) if option_bytes else {}) for option_bytes in sorted(senders)}
    all_ = [options or {} for options in (*options_of.values(), winner)]
    unlike = [n for n in sorted(set().union(*all_)) if len({_canonical(options.get(n)) for options in all_}) > 1]

    def text(options: Mapping[str, Any]) -> str:
        return ", ".join(f"{n}={options[n]!r}" if n in options else f"{n} by default" for n in unlike)

    have = [
        f"{option_bytes.decode() if options is None else text(options)} "
        f"({some(list(map(repr, sorted(senders[option_bytes]))))})"
        for option_bytes, options in options_of.items()
    ]
    own = "the leader's own options apply"
    if most is None:
        rule = f"{own} ({text(winner)}), because no options are those of more than half of the members"
    elif options_of[most] is None and tell(winner) != most:
        rule = f"{own}, because more than half of the members send only a digest of options above {MOST} bytes"
    else:
        rule = f"{text(winner)} applies under any leader, because more than half of the members have these"
    text_ = f"members have different options: {some(have)}; {rule}. Give all members the same options"
    return Fact("options-differ", "", text_)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")
