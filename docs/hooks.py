"""What the site adds to the pages: the changelog, the pipeline's tables with their columns, a search in files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SCHEMA = ROOT / "pipeline" / "schema.py"
SHIM = "search-from-file.js"


def on_config(config: Any) -> Any:
    """Load what lets the search work in a site that is opened as files."""
    config.extra.setdefault("polyfills", []).append(SHIM)
    return config


def on_post_build(config: Any) -> None:
    """Write the search's index as a script, too: a page that is opened as a file may read no other file but scripts.

    The theme looks for it there (`search/search_index.js`).
    """
    index = Path(config.site_dir) / "search" / "search_index.json"
    index.with_suffix(".js").write_text(f"var __index = {index.read_text('utf-8')}", "utf-8")


on_post_build.mkdocs_priority = -100  # type: ignore[attr-defined] # after the plugin that writes the index


def on_files(files: Any, config: Any) -> Any:
    """Add the changelog, which lies at the root, as a page."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "changelog.md", content=(ROOT / "CHANGELOG.md").read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Append the tables to their page. The page of every file is left out of the search, which would find it always."""
    if page.file.src_uri == "files.md":
        page.meta["search"] = {"exclude": True}
    if page.file.src_uri == "pipeline-tables.md":
        return f"{markdown}\n{tables(SCHEMA.read_text('utf-8'))}"
    return markdown


def tables(source: str) -> str:
    """Markdown of every table that a run or a stream writes, from the source of `pipeline/schema.py`."""
    written = dict(re.findall(r"^    \"(\w+)\": ([A-Z_]+),$", source, re.MULTILINE))
    written |= {"runs": "RUNS", "loads": "LOADS", "batch_keys": "BATCH_KEYS"}
    out = ["## Every table and its columns\n"]
    for name, constant in written.items():
        found = re.search(rf"^{constant} = _table\(\n(.*?)^\)\n\"\"\"(.*?)\"\"\"", source, re.DOTALL | re.MULTILINE)
        if found is None:
            raise ValueError(f"pipeline/schema.py has no table {constant} with a docstring")
        out += [f"### {name}\n", f"{found[2].strip()}\n", "| column | type | |", "|---|---|---|"]
        out += [f"| `{column}` | {kind} | {told} |" for column, kind, told in columns(found[1])]
        out.append("")
    return "\n".join(out)


def columns(body: str) -> list[tuple[str, str, str]]:
    """Name, type in words, and comment of each column."""
    found = []
    one_line = re.sub(r"\(\n\s+(\"\w+\"),\n\s+(\w+),\n\s+(\w+),\n\s+\)", r"(\1, \2, \3)", body)
    for line in one_line.splitlines():
        if match := re.match(r"\s+\(\"(\w+)\", (.+), (NEVER|OR_NULL)\),\s*(?:# (.*))?$", line):
            column, kind, null, told = match.groups()
            kind = re.sub(r"ArrayType\((\w+)\)", r"array of \1", kind).lower()
            found.append((column, kind + (" or null" if null == "OR_NULL" else ""), told or ""))
        elif match := re.match(r"\s+# (.*)$", line):
            column, kind, told = found[-1]
            found[-1] = (column, kind, f"{told} {match[1]}")
        else:
            raise ValueError(f"pipeline/schema.py: no column in {line!r}")
    return [(column, kind, told.replace("|", "\\|")) for column, kind, told in found]
