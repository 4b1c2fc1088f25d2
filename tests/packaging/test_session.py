"""The recorded terminal session: the picture is that of the cast, shows every command, and loads nothing."""

from __future__ import annotations

import html
import json
import re

from benchmarks.terminal_session import CAST, COMMANDS, PICTURE, drawn, screen


def test_the_picture_is_the_cast() -> None:
    assert PICTURE.read_text("utf-8") == drawn(CAST.read_text("utf-8"))


def test_the_cast_has_every_command_and_no_error() -> None:
    lines = CAST.read_text("utf-8").splitlines()
    header, times = json.loads(lines[0]), [json.loads(line)[0] for line in lines[1:]]
    assert header["version"] == 2
    assert times == sorted(times)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", screen(CAST.read_text("utf-8")))
    assert [line.removeprefix("$ ") for line in plain.splitlines() if line.startswith("$ kafka")] == list(COMMANDS)
    assert not re.search(r"\x1b|error|Traceback", plain)


def test_the_picture_opens_offline() -> None:
    said = PICTURE.read_text("utf-8")
    assert not re.search(r"(src|href)\s*=|url\((?!#)|@font-face|<script", said)
    shown = html.unescape(re.sub(r"<[^>]+>", "", said)).replace("\xa0", " ")
    assert all(command in shown for command in COMMANDS)
