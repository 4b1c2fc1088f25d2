"""The page of what is read and written on a cluster has every command that reaches one, and tests that exist."""

from __future__ import annotations

import re
from typing import Any

from tests.support.cli import commands
from tests.support.places import ROOT

PAGE = (ROOT / "docs" / "what-we-write.md").read_text("utf-8")


def reaching_commands() -> dict[str, Any]:
    """Every command of ``kafka-assignors`` that takes ``--bootstrap``, with the words that one types."""
    return {name: each for name, each in commands().items() if any("--bootstrap" in p.opts for p in each.params)}


def test_every_command_that_reaches_a_cluster_is_on_the_page() -> None:
    table = PAGE[PAGE.index("## Commands") : PAGE.index("## Libraries")]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    named = {each for row in rows for each in re.findall(r"`([^`]+)`", row)}
    reaching = reaching_commands()

    assert {"plan", "test", "keys audit", "report run"} <= reaching.keys()
    assert {name for name in reaching if not any(f"{each} ".startswith(f"{name} ") for each in named)} == set()


def test_every_test_that_the_page_names_is_there() -> None:
    named, file = 0, ""
    for name, test in re.findall(r"`((?:[a-z_]+(?:/[a-z_]+)+\.py)?)::(test_\w+)`", PAGE):
        file = name or file  # without a file: in the one that was named last
        assert f"def {test}(" in (ROOT / "tests" / file).read_text("utf-8"), f"{file}::{test}"
        named += 1
    assert named >= 10
