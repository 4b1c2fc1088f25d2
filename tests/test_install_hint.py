"""The command that installs a missing part names where this distribution came from."""

from __future__ import annotations

import json
from importlib import metadata
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_assignors.extras import install


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
    def absent(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", absent)
    assert install("cli") == "pip install 'kafka-assignors[cli]'"
