"""The page of what is read and written on a cluster has every command that reaches one, and tests that exist."""

from __future__ import annotations

import re

import pytest
import typer

from kafka_assignors.integration.commands.cli import app as integration
from kafka_assignors.pipeline.cli import app as pipeline
from kafka_assignors.producers.__main__ import app as producers
from tests.support.places import ROOT

PAGE = (ROOT / "docs" / "what-we-write.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("program", "app"), [("integration", integration), ("producers", producers), ("pipeline", pipeline)]
)
def test_every_command_that_reaches_a_cluster_is_on_the_page(program: str, app: typer.Typer) -> None:
    rows = [row.split("|")[1] for row in PAGE.splitlines() if row.startswith(f"| `{program} ")]
    named = {name for row in rows for name in re.findall(rf"`(?:{program} )?([a-z]+)[^`]*`", row)}
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    reaching = {name for name, each in commands.items() if any("--bootstrap" in p.opts for p in each.params)}

    assert reaching
    assert reaching <= named <= commands.keys()


def test_every_test_that_the_page_names_is_there() -> None:
    named, file = 0, ""
    for name, test in re.findall(r"`((?:[a-z_]+(?:/[a-z_]+)+\.py)?)::(test_\w+)`", PAGE):
        file = name or file  # without a file: in the one that was named last
        assert f"def {test}(" in (ROOT / "tests" / file).read_text("utf-8"), f"{file}::{test}"
        named += 1
    assert named >= 10
