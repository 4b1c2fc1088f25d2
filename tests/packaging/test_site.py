"""The site: its menu has every page, and its tables of the pipeline are those of `pipeline/schema.py`."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from kafka_assignors.pipeline import schema
from tests.support.contrast import TEXT, contrast, rgb
from tests.support.pages import PAGES
from tests.support.places import ROOT


def leaves(menu: Any) -> Iterator[str]:
    if isinstance(menu, str):
        yield menu
    else:
        for each in menu.values() if isinstance(menu, dict) else menu:
            yield from leaves(each)


def test_the_menu_has_every_page_once() -> None:
    menu = list(leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]))

    assert sorted(menu) == sorted(
        [page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")] + ["changelog.md"]
    )


def test_the_index_of_the_search_is_a_script_too(tmp_path: Path) -> None:
    """A browser lets a page that was opened as a file read scripts only."""
    hooks = runpy.run_path(str(ROOT / "docs" / "hooks.py"))
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / "search_index.json").write_text('{"docs": []}', "utf-8")
    config = SimpleNamespace(site_dir=str(tmp_path), extra={})

    hooks["on_post_build"](config)

    assert (tmp_path / "search" / "search_index.js").read_text("utf-8") == 'var __index = {"docs": []}'
    (shim,) = hooks["on_config"](config).extra["polyfills"]
    assert 'location.protocol === "file:"' in (ROOT / "docs" / shim).read_text("utf-8")


def test_colours_of_the_dark_site_have_the_contrast_of_text_also_on_code() -> None:
    """Material's own were measured in a browser; these replace those that are too dark."""
    style = (ROOT / "docs" / "site.css").read_text("utf-8")
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    (slate,) = re.findall(r'scheme="slate"[^{]*\{(.*?)\}', style, re.DOTALL)
    colours = re.findall(r"(#\w+);", slate)

    assert config["extra_css"] == ["site.css"]
    assert len(colours) == 3
    code = rgb("#272a35")  # behind code, in the dark theme
    assert [colour for colour in colours if contrast(rgb(colour), code) < TEXT] == []


def test_the_page_of_tables_has_every_column() -> None:
    hooks = runpy.run_path(str(ROOT / "docs" / "hooks.py"))
    page = hooks["tables"]((ROOT / "pipeline" / "schema.py").read_text("utf-8"))
    told = dict(re.findall(r"^### (\w+)\n(.*?)(?=^### |\Z)", page, re.DOTALL | re.MULTILINE))

    written = schema.TABLES | {"runs": schema.RUNS, "loads": schema.LOADS, "batch_keys": schema.BATCH_KEYS}
    assert told.keys() == written.keys()
    for name, table in written.items():
        assert re.findall(r"^\| `(\w+)` \|", told[name], re.MULTILINE) == table.names
        assert re.findall(r" or null \|", told[name]) == [" or null |"] * sum(field.nullable for field in table.fields)
