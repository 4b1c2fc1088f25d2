"""What to type where a package is missing."""

from __future__ import annotations

from typing import Any

DISTRIBUTION = "kafka-assignors"
PUBLISHED = False
"""Whether package indexes have this distribution. A release sets it; README, docs and CHANGELOG.md then say so, too."""


def install(extra: str) -> str:
    """The command that installs an extra, or several with commas.

    A checkout and a wheel are named by their paths, as pip recorded them (PEP 610, ``direct_url.json``), and a
    repository by its address. Without a record the distribution came from an index, and is named. Where it is not
    installed, it runs in a checkout, which is named until there is a release.
    """
    from shlex import quote
    from urllib.parse import unquote, urlsplit

    origin = _origin()
    url, editable = str(origin.get("url", "")), ""
    what = f"{DISTRIBUTION}[{extra}]"
    if "vcs_info" in origin:
        what += f" @ {origin['vcs_info'].get('vcs', 'git')}+{url}"
    elif url.startswith("file:"):
        what = f"{unquote(urlsplit(url).path)}[{extra}]"
        editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}{quote(what)}"


def _origin() -> dict[str, Any]:
    """Where pip installed this distribution from; empty if that is not recorded."""
    import json  # like what follows, slow to import and seldom needed
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        origin = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return {} if PUBLISHED else _checkout()
    except ValueError:
        return {}
    return origin if isinstance(origin, dict) else {}


def _checkout() -> dict[str, Any]:
    """The checkout that this file is in, as pip would record it; empty if it is in none."""
    from pathlib import Path

    root = Path(__file__).resolve().parents[1]
    return {"url": root.as_uri(), "dir_info": {}} if (root / "pyproject.toml").is_file() else {}
