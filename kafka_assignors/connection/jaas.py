"""Codec for ``sasl.jaas.config``: text <-> login module and options, as Kafka's JaasConfig parses it.

Source: apache/kafka ``clients/src/main/java/org/apache/kafka/common/security/JaasConfig.java``
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ..errors import ConfigError
from .properties import Given

_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/                      # blanks and comments
    |"(?P<double>(?:\\.|[^"\\\n])*)"|'(?P<single>(?:\\.|[^'\\\n])*)'
    |(?P<word>[\w$.\-]+)|(?P<sign>[=;])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


class Login(NamedTuple):
    """A login module's class name and its options."""

    module: str
    options: dict[str, str]


def parse(text: str) -> Login:
    """Parse a ``sasl.jaas.config``: ``MODULE required name="value" …;``; else a ValueError, which quotes none of it."""
    words = _tokens(text)
    module, flag = (words.pop(0) if words else ("", "") for _ in range(2))
    if module[0] != "word" or flag[0] != "word" or flag[1].lower() not in _FLAGS:
        raise ValueError("it does not begin with a login module's class and 'required'")
    if not words or words[-1] != ("sign", ";"):
        raise ValueError("it does not end with a semicolon")
    words.pop()
    options: dict[str, str] = {}
    while words:
        name, equals, value = (words.pop(0) if words else ("", "") for _ in range(3))
        if name[0] not in ("word", "text") or equals != ("sign", "=") or value[0] not in ("word", "text"):
            raise ValueError(f'after {len(options)} options an entry is not name="value"; is a quote missing?')
        options[name[1]] = value[1]
    return Login(module[1], options)


def read(given: Given, mechanism: str, options: str) -> Login:
    """Parse a ``sasl.jaas.config`` of a mechanism. `options` is an example of them, for the message.

    Raises:
        ConfigError: It has another form, or another mechanism's module. The message has none of its values.
    """
    module = MODULES[mechanism]
    try:
        login = parse(given.value)
    except ValueError as error:
        raise ConfigError(
            f"{given.where}: sasl.jaas.config can't be read: {error}. Write {module} required {options};"
        ) from None
    if login.module != module:
        raise ConfigError(
            f"{given.where}: sasl.jaas.config has the module {login.module}, and sasl.mechanism={mechanism} needs "
            f"{module}"
        )
    return login


def render(login: Login) -> str:
    """Render a ``sasl.jaas.config``."""
    options = "".join(f" {name}={_quoted(value)}" for name, value in login.options.items())
    return f"{login.module} required{options};"


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise ValueError(f"character {at + 1} can't be read; is a quote missing?")
        at = token.end()
        if token.lastgroup in ("double", "single"):
            tokens.append(("text", _unescape(token[token.lastgroup])))
        elif token.lastgroup is not None:
            tokens.append((token.lastgroup, token[token.lastgroup]))
    return tokens


def _unescape(text: str) -> str:
    def meant(match: re.Match[str]) -> str:
        escape = match.group(1)
        return chr(int(escape, 8)) if escape[0] in "01234567" else _ESCAPES.get(escape, escape)

    return re.sub(r"\\([0-3]?[0-7]{1,2}|.)", meant, text, flags=re.DOTALL)


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def login(mechanism: str, options: Mapping[str, str]) -> Login:
    """Kafka's login module for a mechanism, with the given options."""
    return Login(MODULES[mechanism], dict(options))


CA, CA_TYPE = "ssl.truststore.certificates", "ssl.truststore.type"
"""Options of OAUTHBEARER's module: whom to trust at the token endpoint. Java takes them from nowhere else."""

MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
