"""What the programs of members that write their own history share, around the member itself."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from kafka_assignors.connection import missing_codec
from kafka_assignors.history.writer import EventWriter

from ..config import MemberConfig
from ..control import Control


def run_program(
    argv: Sequence[str],
    play: Callable[[MemberConfig, EventWriter, Control], object],
    words: Callable[[Exception, MemberConfig], str] = lambda error, _: f"{type(error).__name__}: {error}",
) -> int:
    """Run one member from the configuration file in `argv`.

    `play` runs the member until it is told to end, and writes its ``stop``. `words` makes the message of an error that
    `play` raises, which becomes the member's last event. Returns the exit code: 0 in order, 1 after an error, 2 if the
    configuration can't be read.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if len(argv) != 1:
        print("usage: a member takes one argument, CONFIG.json", file=sys.stderr)
        return 2
    try:
        config = MemberConfig.from_json(Path(argv[0]).read_text("utf-8"))
    except (OSError, ValueError, TypeError) as error:
        print(f"{argv[0]}: not a member's configuration: {error}", file=sys.stderr)
        return 2
    control = Control()
    control.listen()
    with EventWriter(Path(config.history), config.run, "member", **config.common) as writer:
        try:
            play(config, writer, control)
        except Exception as error:
            logging.exception("member %s ends", config.member)
            writer.write(
                "error", error=type(error).__name__, fatal=True, message=missing_codec(error) or words(error, config)
            )
            return 1
    return 0
