"""``python -m benchmarks.terminal_session`` records docs/img/session.cast on a real broker, and draws session.svg.

A group of three members lives through a join and a crash; then the commands run in a terminal of their own. The cast is
asciinema's format (version 2), which its player shows as it happened; the SVG is its last screen, as long as it is.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from kafka_assignors.integration.broker import start_broker
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.topics import create_topics

IMAGES = Path(__file__).parents[1] / "docs" / "img"
CAST, PICTURE = IMAGES / "session.cast", IMAGES / "session.svg"
GROUP, TOPIC, PORT = "billing", "orders", 9092
COMMANDS = (
    "kafka-assignors why billing -b localhost:9092",
    "kafka-assignors plan billing -b localhost:9092 --add m5 -A cooperative-sticky",
    "kafka-assignors vote billing -b localhost:9092 --to cooperative-sticky",
)
_WIDTH, _HEIGHT = 110, 40
# As Rich's theme for pictures, but lighter where its text has a contrast below 4.5: dimmed, red, blue and magenta.
_THEME = TerminalTheme(
    (41, 41, 41),
    (217, 220, 218),
    [
        (150, 153, 160), (228, 110, 115), (152, 168, 75), (208, 179, 68),
        (116, 160, 200), (184, 148, 190), (104, 160, 179), (217, 220, 218),
    ],
)  # fmt: skip
_LIMIT_S = 60
_TYPED_S = 0.04
"""Seconds that a character takes to be typed: only the player shows it."""

Chunk = tuple[float, str]
"""Seconds since the begin, and what the terminal got then."""


def played(bootstrap: str, folder: Path) -> MemberGroup:
    """A group that has had a join and a crash; it goes on until it is closed."""
    create_topics(bootstrap, {TOPIC: 6})
    group = MemberGroup(bootstrap, GROUP, folder, "session")
    for name in ("m1", "m2", "m3"):
        group.start(name, [TOPIC], ["range"])
    group.wait_stable()
    group.start("m4", [TOPIC], ["range"])
    group.wait_stable()
    group.kill("m2")
    group.wait_stable()
    return group


def recorded(commands: Sequence[str]) -> Iterator[Chunk]:
    """What a terminal shows while the commands run one after the other.

    Raises:
        SystemExit: A command could not run.
    """
    began = time.monotonic()
    typed = 0.0  # seconds of typing, which are added to the clock
    for command in commands:
        yield time.monotonic() - began + typed, "$ "
        for letter in command:
            typed += _TYPED_S
            yield time.monotonic() - began + typed, letter
        yield time.monotonic() - began + typed, "\r\n"
        for text in _in_terminal(command):
            yield time.monotonic() - began + typed, text
    yield time.monotonic() - began + typed, "$ "


def _in_terminal(command: str) -> Iterator[str]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _HEIGHT, _WIDTH, 0, 0))
    program, *options = command.split()
    words = [str(Path(sys.executable).parent / program), *options]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(_WIDTH), "LINES": str(_HEIGHT)}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    decoder = io.IncrementalNewlineDecoder(None, translate=False)
    left = b""
    while True:
        try:
            got = os.read(ours, 65536)
        except OSError:  # the process has closed its side
            break
        if not got:
            break
        left += got
        try:
            text, left = left.decode(), b""
        except UnicodeDecodeError:  # a character's other bytes are still to come
            continue
        yield str(decoder.decode(text))
    os.close(ours)
    if (code := process.wait(_LIMIT_S)) not in (0, 4):
        raise SystemExit(f"error: {command} ended with exit code {code}")


def written(chunks: Sequence[Chunk]) -> str:
    """The cast as its file's text."""
    header = {"version": 2, "width": _WIDTH, "height": _HEIGHT, "title": "kafka-assignors"}
    return "".join(json.dumps(line) + "\n" for line in (header, *([round(at, 3), "o", text] for at, text in chunks)))


_MOVES = re.compile(r"(\r?\n|\r|\x1b\[\d*A|\x1b\[\d*K|\x1b\[\??[\d;]*[B-HJSTfhlnsu])")


def screen(cast: str) -> str:
    """Everything that a cast shows in the end, with colours as escape sequences: spinners have been erased."""
    shown = "".join(json.loads(line)[2] for line in cast.splitlines()[1:])
    lines, at, back = [""], 0, False  # `back`: the next text begins the line anew
    for part in _MOVES.split(shown):
        if part.endswith("\n"):
            at, back = at + 1, False
            lines += [""] * (at + 1 - len(lines))
        elif part == "\r":
            back = True
        elif part.endswith("A") and part.startswith("\x1b"):
            at = max(0, at - int(part[2:-1] or 1))
        elif part.endswith("K") and part.startswith("\x1b"):
            lines[at] = ""
        elif part and not _MOVES.fullmatch(part):
            lines[at] = part if back else lines[at] + part
            back = False
    return "\n".join(lines)


def drawn(cast: str) -> str:
    """The picture of a cast: no script, no font and nothing else from elsewhere."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(screen(cast)), soft_wrap=True)
    svg = console.export_svg(title="kafka-assignors", theme=_THEME, unique_id="session")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace("Fira Code, monospace", "monospace")
    return re.sub(r"<!-- Generated with .*? -->\s*", "", svg)


def main() -> None:
    """Play, record, draw."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made, start_broker("jvm", port=PORT) as broker:
        group = played(broker.bootstrap, Path(made))
        try:
            CAST.write_text(written(list(recorded(COMMANDS))), "utf-8")
        finally:
            group.close()
    PICTURE.write_text(drawn(CAST.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
