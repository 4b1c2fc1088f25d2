"""Profiles: named sections of a properties file, each with the settings of one cluster.

client.dns.lookup=use_all_dns_ips        # settings above the first section hold for every profile
[staging]
bootstrap.servers=staging-1:9092
[prod]
bootstrap.servers=prod-1:9093,prod-2:9093
security.protocol=SASL_SSL
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import ConfigError
from .properties import Line

_HEAD = re.compile(r"\[([^\[\]\s]+)\]")


def profiles_file(environment: Mapping[str, str] = os.environ) -> Path:
    """The file of profiles if the user names no other: in ``$XDG_CONFIG_HOME``, or else ``~/.config``."""
    folder = environment.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "kafka-assignors" / "profiles.properties"


def chosen(lines: Sequence[Line], profile: str | None, file: str) -> list[Line]:
    """The settings of a profile: those above the first section, then its own.

    Without a profile, the file must have no sections. `file` is its name for errors.

    Raises:
        ConfigError: There is no such profile, two have its name, a header is malformed, or none of several is named.
    """
    sections: dict[str, list[Line]] = {}
    common: list[Line] = []
    current = common
    for line in lines:
        if not line.key.startswith("["):
            current.append(line)
            continue
        head = _HEAD.fullmatch(line.key)
        if head is None or line.value:
            text = f"{line.key} {line.value}".strip()
            raise ConfigError(f"{file}, line {line.number}: {text!r} is not [NAME] with a name without blanks")
        if head[1] in sections:
            raise ConfigError(f"{file}, line {line.number}: profile {head[1]!r} is there twice; rename or remove one")
        current = sections[head[1]] = []
    if profile is None:
        if sections:
            raise ConfigError(f"{file} has the profiles {', '.join(sections)}; name one with --profile NAME")
        return common
    if profile not in sections:
        near = difflib.get_close_matches(profile, sections, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(sections) or 'no profiles'}"
        raise ConfigError(f"--profile {profile!r}: {file} has no section [{profile}]{hint}")
    return [*common, *sections[profile]]
