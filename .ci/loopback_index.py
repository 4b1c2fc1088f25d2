"""A package index on loopback, for `make release-check`: takes uploads as twine sends them, serves them as pip asks."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

REQUIRED = ("name", "version", "filetype", "sha256_digest", "content")


class LoopbackIndex:
    """An index below a folder, which has a folder for each project. A context manager.

    Source: PEP 503 (simple pages), and the upload API that PyPI's Warehouse calls legacy.
    """

    def __init__(self, folder: Path) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, folder))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.upload_url, self.simple_url = f"{self.url}/legacy/", f"{self.url}/simple/"

    def __enter__(self) -> LoopbackIndex:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, folder: Path, *given: object) -> None:
        self._folder = folder
        super().__init__(*given)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        match self.path.strip("/").split("/"):
            case ["simple", project] if (self._folder / normalized(project)).is_dir():
                files = sorted((self._folder / normalized(project)).iterdir())
                self._answer(200, "\n".join(link(project, file) for file in files).encode(), "text/html")
            case ["files", project, name] if (path := self._folder / normalized(project) / Path(name).name).is_file():
                self._answer(200, path.read_bytes(), "application/octet-stream")
            case _:
                self._answer(404, b"not here")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        fields = form(self.headers["Content-Type"], body)
        if missing := [name for name in REQUIRED if name not in fields]:
            self._answer(400, f"missing: {', '.join(missing)}".encode())
            return
        name, content = fields["content"]
        path = self._folder / normalized(fields["name"][1].decode()) / Path(name).name
        if digest(content) != fields["sha256_digest"][1].decode():
            self._answer(400, b"the file is not that of its sha256_digest")
        elif path.exists():
            self._answer(400, b"the file exists already")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            self._answer(200, b"")

    def _answer(self, status: int, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing: what failed is told by twine and by pip."""


def form(content_type: str, body: bytes) -> Mapping[str, tuple[str, bytes]]:
    """The fields of a multipart form: name -> file name ("" if it is none) and value."""
    boundary = re.search(r'boundary="?([^";]+)', content_type)
    if boundary is None:
        return {}
    fields = {}
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary[1].encode())[1:-1]:
        head, _, value = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        named = dict(re.findall(r'[; ](name|filename)="([^"]*)"', head.decode("utf-8", "replace")))
        fields[named.get("name", "")] = (named.get("filename", ""), value)
    return fields


def link(project: str, file: Path) -> str:
    """A line of a simple page."""
    return f'<a href="/files/{project}/{file.name}#sha256={digest(file.read_bytes())}">{file.name}</a>'


def normalized(project: str) -> str:
    """A project's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", project).lower()


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()
