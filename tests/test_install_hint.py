"""The command that installs a missing part names where this distribution came from."""

from __future__ import annotations

import json
import re
from importlib import metadata
from shlex import quote
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_assignors import extras
from kafka_assignors.extras import DISTRIBUTION, PUBLISHED, install
from tests.support.places import ROOT


@pytest.mark.parametrize(
    ("record", "command"),
    [
        (None, "pip install 'kafka-assignors[cli]'"),
        ("no JSON", "pip install 'kafka-assignors[cli]'"),
        ("[]", "pip install 'kafka-assignors[cli]'"),
        ({"url": "file:///home/me/a%20b", "dir_info": {}}, "pip install '/home/me/a b[cli]'"),
        ({"url": "file:///home/me/k", "dir_info": {"editable": True}}, "pip install -e '/home/me/k[cli]'"),
        ({"url": "file:///tmp/k-1.whl", "archive_info": {}}, "pip install '/tmp/k-1.whl[cli]'"),
        (
            {"url": "https://host/k.git", "vcs_info": {"vcs": "git", "commit_id": "1"}},
            "pip install 'kafka-assignors[cli] @ git+https://host/k.git'",
        ),
    ],
    ids=["index", "damaged", "another form", "folder", "checkout", "wheel", "repository"],
)
def test_what_to_type_names_the_origin(record: Any, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(record) if isinstance(record, dict) else record
    monkeypatch.setattr(metadata, "distribution", lambda _name: SimpleNamespace(read_text=lambda _file: text))
    assert install("cli") == command


def test_a_checkout_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until there is a release, which indexes have."""

    def absent(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", absent)
    monkeypatch.setattr(extras, "PUBLISHED", False)
    assert install("cli") == f"pip install {quote(f'{ROOT}[cli]')}"
    monkeypatch.setattr(extras, "__file__", "/elsewhere/kafka_assignors/extras.py")
    assert install("cli") == "pip install 'kafka-assignors[cli]'"
    monkeypatch.undo()
    monkeypatch.setattr(metadata, "distribution", absent)
    monkeypatch.setattr(extras, "PUBLISHED", True)
    assert install("cli") == "pip install 'kafka-assignors[cli]'"


def texts() -> dict[str, str]:
    """Every file that a user may read a command in: code, pages and the files around them."""
    names = ("*.md", "*.toml", "Makefile", "docs/**/*.md", "examples/**/*", ".ci/*", ".github/**/*.yml")
    rooms = ("kafka_assignors", "producers", "integration", "pipeline", "benchmarks")
    paths = [path for name in names for path in ROOT.glob(name)]
    paths += [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths if path.is_file()}


def test_only_one_place_tells_how_to_install_this_distribution_from_an_index() -> None:
    """All other code asks `install`; pages name the distribution once it is published, and a path until then."""
    named = re.compile(r"pip install [^\n`]*?['\" ]" + DISTRIBUTION + r"\b(?!/)")
    hits = {name for name, text in texts().items() if named.search(text)}

    assert {name for name in hits if name.endswith(".py") and not name.startswith(".ci")} == set()
    assert bool({name for name in hits if name.endswith(".md")}) == PUBLISHED


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_pages_say_whether_it_is_published(page: str) -> None:
    assert ("Nothing is published on a package index yet" in texts()[page]) != PUBLISHED


def test_the_changelog_has_a_date_once_it_is_published() -> None:
    heading = re.search(r"^## \S+ \((.*)\)$", texts()["CHANGELOG.md"], re.MULTILINE)

    assert heading
    assert (heading[1] == "unreleased") != PUBLISHED
    assert bool(re.fullmatch(r"\d{4}-\d\d-\d\d", heading[1])) == PUBLISHED
