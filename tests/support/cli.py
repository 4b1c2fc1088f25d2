"""The command `kafka-assignors`, run as a user runs it, and the schemas of its answers."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import typer

from kafka_assignors.operator.cli.app import app
from kafka_assignors.operator.cli.later import real
from tests.support.forked import run
from tests.support.places import ROOT

SCHEMAS = ROOT / "kafka_assignors" / "operator" / "cli" / "schemas"
LIMIT_S = 120


def commands() -> dict[str, Any]:
    """Every command, as click has it, by the words that one types."""

    def below(group: Any, words: str) -> dict[str, Any]:
        leaf_commands: dict[str, Any] = {}
        for name, command in group.commands.items():
            path = f"{words} {name}".strip()
            leaf_commands |= below(command, path) if hasattr(command, "commands") else {path: real(command)}
        return leaf_commands

    return below(typer.main.get_command(app), "")


def cli(*args: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a pipe, 80 columns wide, without a broker in its environment."""
    outside = {name: value for name, value in os.environ.items() if name not in ("KAFKA_BOOTSTRAP", "COLUMNS")}
    return run("kafka_assignors", *args, timeout_s=LIMIT_S, cwd=cwd, environment={**outside, **environment})


def without_progress(text: str) -> str:
    """What a command said on stderr, without the lines by which it tells each 5 s that it goes on."""
    return re.sub(r"^(?!error: |note: )[^\n]*: \d+ s(, [^\n]*)?\n", "", text, flags=re.MULTILINE)


def valid(schema: str, answer: dict[str, Any]) -> dict[str, Any]:
    """An answer, checked against a schema."""
    jsonschema.validate(answer, json.loads((SCHEMAS / f"{schema}.json").read_text("utf-8")))
    return answer


def answered(schema: str, done: subprocess.CompletedProcess[str], code: int = 0) -> dict[str, Any]:
    """The JSON of a command, checked against its schema."""
    assert done.returncode == code, done.stdout + done.stderr
    return valid(schema, json.loads(done.stdout))
