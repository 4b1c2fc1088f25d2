"""What differs between a folder and its manifest is told in full, and a manifest that is none by its first fault."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from kafka_assignors.history.events import Event
from kafka_assignors.history.events.lines import Allowance, Unreadable
from kafka_assignors.integration.history import History, manifest, read

pytestmark = pytest.mark.invented

VERSIONS = "unknown version {}; this version reads 1"
RUNS = "its runs are not a list of names"
FILES = "its files are not an object with a SHA-256 for each name"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def listing(folder: Path, *, runs: object = ("run",), files: object = None) -> Path:
    """A folder with files a and b, and their manifest."""
    there = {name: name.encode() * 7 for name in ("a.jsonl", "b.jsonl")}
    for name, data in there.items():
        (folder / name).write_bytes(data)
    files = {name: sha256(data) for name, data in there.items()} if files is None else files
    (folder / manifest.NAME).write_text(json.dumps({"v": 1, "runs": runs, "files": files}))
    return folder


def problems(folder: Path, digests: dict[str, str | None] | None = None, runs: tuple[str, ...] = ()) -> list[str]:
    events = [Event("step", run, "harness", 0, 0, 0) for run in runs]
    return list(manifest.problems(folder, digests or {}, events))


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("[]", VERSIONS.format(None)),
        ("{}", VERSIONS.format(None)),
        ('{"v":2,"runs":["run"],"files":{}}', VERSIONS.format(2)),
        ('{"v":true,"runs":["run"],"files":{}}', VERSIONS.format(True)),
        ('{"v":1.0,"runs":["run"],"files":{}}', VERSIONS.format(1.0)),
        ('{"v":1,"files":{}}', RUNS),
        ('{"v":1,"runs":"run","files":{}}', RUNS),
        ('{"v":1,"runs":["run",1],"files":{}}', RUNS),
        ('{"v":1,"runs":["run"]}', FILES),
        ('{"v":1,"runs":["run"],"files":[]}', FILES),
        ('{"v":1,"runs":["run"],"files":{"a":"","b":1}}', FILES),
    ],
)
def test_a_manifest_that_is_none_is_told_by_its_first_fault(text: str, cause: str, tmp_path: Path) -> None:
    (tmp_path / manifest.NAME).write_text(text)

    assert problems(tmp_path) == [f"{manifest.NAME} can't be read: {cause}"]


def test_a_manifest_may_list_as_many_files_as_a_history_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listing(tmp_path)
    monkeypatch.setattr(manifest, "MOST_FILES", 2)
    assert problems(tmp_path) == []
    monkeypatch.setattr(manifest, "MOST_FILES", 1)

    assert problems(tmp_path) == [f"{manifest.NAME} can't be read: it lists 2 files; a history has at most 1"]


def test_a_folder_may_have_as_many_files_as_a_history_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listing(tmp_path)
    monkeypatch.setattr(read, "MOST_FILES", 2)
    assert not [problem for problem in History.load(tmp_path).problems if "at most" in problem]
    monkeypatch.setattr(read, "MOST_FILES", 1)

    history = History.load(tmp_path)

    assert history.problems == (f"{tmp_path} has 2 *.jsonl files; a history has at most 1",)
    assert history.events == ()


def test_bytes_are_compared_as_they_were_read_and_else_as_they_are(tmp_path: Path) -> None:
    """Of a group that is left out nothing was read; of a file that could not be read to its end, that is told."""
    differs = "a.jsonl: its bytes differ from the manifest: the file was cut off or changed"
    listing(tmp_path)
    (tmp_path / "a.jsonl").write_bytes(b"changed since it was read")

    assert problems(tmp_path, {"a.jsonl": sha256(b"a.jsonl" * 7)}) == []
    assert problems(tmp_path, {"a.jsonl": None}) == []
    assert problems(tmp_path, {"a.jsonl": sha256(b"")}) == [differs]
    assert problems(tmp_path) == [differs]


def test_files_that_only_the_manifest_or_the_folder_has_are_told(tmp_path: Path) -> None:
    listing(tmp_path)
    (tmp_path / "a.jsonl").rename(tmp_path / "c.jsonl")
    (tmp_path / "notes.txt").touch()

    assert problems(tmp_path) == [
        "a.jsonl: the manifest lists it, but it is missing",
        "c.jsonl: is not in the manifest: it was added later, or the harness ended before it sealed the run",
    ]


def test_what_is_no_file_is_told_and_the_others_compared(tmp_path: Path) -> None:
    listing(tmp_path)
    (tmp_path / "a.jsonl").unlink()
    os.mkfifo(tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl").write_bytes(b"")

    assert problems(tmp_path) == [
        "a.jsonl: can't be read: it is a pipe, not a regular file",
        "b.jsonl: its bytes differ from the manifest: the file was cut off or changed",
    ]


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([], "0 runs wrote into this folder: none; give each its own folder"),
        (["a", "b"], "2 runs wrote into this folder: 'a', 'b'; give each its own folder"),
        (list("abcde"), "5 runs wrote into this folder: 'a', 'b', 'c', 'd', 'e'; give each its own folder"),
        (list("abcdef"), "6 runs wrote into this folder: 'a', 'b', 'c', 'd', 'e', …; give each its own folder"),
    ],
)
def test_a_folder_is_of_one_run(runs: list[str], words: str, tmp_path: Path) -> None:
    assert problems(listing(tmp_path, runs=runs)) == [words]


def test_events_are_of_the_runs_that_the_manifest_lists(tmp_path: Path) -> None:
    assert problems(listing(tmp_path), runs=("run", "older", "another")) == [
        "events of run 'another', which the manifest does not list",
        "events of run 'older', which the manifest does not list",
    ]


def test_a_digest_is_of_all_bytes_as_far_as_they_are_allowed(tmp_path: Path) -> None:
    data = b"x" * (5 << 20)
    (tmp_path / "a").write_bytes(data)

    assert manifest.digest_of(tmp_path / "a") == sha256(data)
    assert manifest.digest_of(tmp_path / "a", Allowance(len(data))) == sha256(data)
    with pytest.raises(Unreadable, match="it has more than the"):
        manifest.digest_of(tmp_path / "a", Allowance(len(data) - 1))
