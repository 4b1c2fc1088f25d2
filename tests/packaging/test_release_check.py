"""`make release-check` says what it doesn't know: a service that can't be reached is neither a pass nor a failure.

Its index on loopback, and what it takes for published. The whole of it is run before a release, not here.
"""

from __future__ import annotations

import importlib.util
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.places import ROOT


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / ".ci"))
    spec = importlib.util.spec_from_file_location("release_check", ROOT / ".ci" / "release_check.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def answer(*rows: dict[str, object]) -> str:
    return json.dumps({"dependencies": rows})


SKIPPED = {"name": "numpy", "skip_reason": "Dependency not found and could not be audited: numpy (2.4.6)"}
CLEAN = {"name": "scipy", "version": "1.17.1", "vulns": []}
DEFECTIVE = {"name": "scipy", "version": "1.17.1", "vulns": [{"id": "PYSEC-1"}]}


@pytest.mark.parametrize(
    ("out", "err", "failed", "unknown"),
    [
        (answer(CLEAN), "", [], []),
        (answer(DEFECTIVE), "", ["pip-audit: scipy has PYSEC-1"], []),
        (answer(CLEAN, SKIPPED), "", [], ["1 of 2"]),
        (answer(DEFECTIVE, SKIPPED), "", ["pip-audit: scipy has PYSEC-1"], ["1 of 2"]),
        (answer(), "", [], ["1 of 1"]),
        ("", "ConnectionError: refused", [], ["ConnectionError: refused"]),
        ("{}", "", [], ["no answer"]),
    ],
)
def test_what_pip_audit_says(
    check: ModuleType, capsys: pytest.CaptureFixture[str], out: str, err: str, failed: list[str], unknown: list[str]
) -> None:
    check.audited(out, err, max(1, out.count('"name"')))

    assert check.failed == failed
    assert len(check.unknown) == len(unknown)
    assert all(part in line for part, line in zip(unknown, check.unknown, strict=True))
    capsys.readouterr()
    assert check.told() == bool(failed)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"release-check: {len(failed)} failed, {len(unknown)} unknown")
    assert ("NOT a whole check" in last) == bool(unknown)


WHEEL = bytes(range(256)) + b"\r\n--cut\r\n" + b"\n\r\r\n"


@pytest.fixture
def index(check: ModuleType, tmp_path: Path) -> Iterator[Any]:
    with check.LoopbackIndex(tmp_path) as index:
        yield index


def upload(index: Any, content: bytes, **fields: str) -> int:
    """As twine does: a multipart form; the status of the answer."""
    parts = [f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}'.encode() for name, value in fields.items()]
    parts.append(
        b'Content-Disposition: form-data; name="content"; filename="made_up-1-py3-none-any.whl"\r\n'
        b"Content-Type: application/octet-stream\r\n\r\n" + content
    )
    body = b"".join(b"--edge\r\n" + part + b"\r\n" for part in parts) + b"--edge--\r\n"
    request = urllib.request.Request(index.upload_url, body, {"Content-Type": "multipart/form-data; boundary=edge"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read()


def test_the_index_serves_the_bytes_that_were_uploaded(index: Any, check: ModuleType) -> None:
    told = {"name": "Made_Up", "version": "1", "filetype": "bdist_wheel"}
    digest = check.digest(WHEEL)

    assert upload(index, WHEEL, **told, sha256_digest="0" * 64) == 400
    assert upload(index, WHEEL, **told) == 400
    assert upload(index, WHEEL, **told, sha256_digest=digest) == 200
    assert upload(index, WHEEL, **told, sha256_digest=digest) == 400, "a file is never replaced"

    page = get(f"{index.simple_url}made-up/").decode()
    assert page.endswith(f'#sha256={digest}">made_up-1-py3-none-any.whl</a>')
    assert get(index.url + page.split('"')[1].partition("#")[0]) == WHEEL
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(f"{index.simple_url}numpy/")


@pytest.mark.parametrize(
    ("url", "sha256", "failed"),
    [
        ("http://127.0.0.1:1/files/kafka-assignors/a.whl", "00", 0),
        ("http://127.0.0.1:1/files/kafka-assignors/a.whl", "11", 1),
        ("http://127.0.0.1:12/files/kafka-assignors/a.whl", "00", 1),
        ("", "", 1),
    ],
    ids=["ours", "other bytes", "another index", "installed before"],
)
def test_the_origin_is_the_index_and_the_bytes(check: ModuleType, url: str, sha256: str, failed: int) -> None:
    row = {
        "metadata": {"name": "kafka-assignors"},
        "download_info": {"url": url, "archive_info": {"hashes": {"sha256": sha256}}},
    }
    check.origin(json.dumps({"install": [row] if url else []}), "http://127.0.0.1:1", {"a.whl": "00"})

    assert len(check.failed) == failed


def test_what_a_publication_lacks(check: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    ready = (
        "[project]\nauthors = []\n[project.urls]\n", "## 1.0 (2027-01-31)\n", "x\nPUBLISHED = True\n", ["v1.0"], "1.0"
    )  # fmt: skip

    assert check.lacks(*ready) == []
    for at, without in ((0, "[project]\n"), (1, "## 1.0 (unreleased)\n"), (2, "\nPUBLISHED = False\n"), (3, ["v1"])):
        assert len(check.lacks(*ready[:at], without, *ready[at + 1 :])) == (2 if at == 0 else 1)
    assert check.project()["version"] in (ROOT / "CHANGELOG.md").read_text("utf-8")
    check.note_lacking()
    assert check.told() == 0
    assert capsys.readouterr().out.count("LACKS ") == len(check.lacking)
