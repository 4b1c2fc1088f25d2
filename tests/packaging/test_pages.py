"""README and docs: every reference leads somewhere, every command line is one, every example is run by a test."""

from __future__ import annotations

import doctest
import re
import shlex
from collections.abc import Iterator
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from kafka_assignors.integration.commands.cli import app as integration
from kafka_assignors.integration.scenario import SCENARIOS
from kafka_assignors.integration.scenario.chaos import DRAWN
from kafka_assignors.pipeline.cli import app as pipeline
from kafka_assignors.producers.commands import app as producers
from tests.support import file_map
from tests.support.cli import commands
from tests.support.pages import PAGES, Block, anchors, blocks
from tests.support.places import ROOT
from tests.support.programs import ran

PROGRAMS = {"integration": integration, "pipeline": pipeline, "producers": producers}

RUN_BY = {
    ("README.md", "60 seconds"): "packaging/test_readme.py",
    ("docs/clients.md", "kafka-python"): "packaging/test_readme.py",
    ("docs/clients.md", "aiokafka"): "packaging/test_readme.py",
    ("docs/clients.md", "confluent-kafka"): "packaging/test_readme.py",
    ("docs/leaving.md", "kafka-python"): "packaging/test_readme.py",
    ("docs/leaving.md", "confluent-kafka"): "packaging/test_readme.py",
    ("docs/clients.md", "Spark"): "pipeline/load/test_partition_column.py",
    ("docs/range-to-cooperative.md", "From range to cooperative-sticky"): "packaging/test_readme.py",
    ("docs/range-to-cooperative.md", "Who wins the vote"): "packaging/test_readme.py",
    ("docs/planning.md", "Planning a group"): "packaging/test_readme.py",
    ("docs/planning.md", "A live group"): "packaging/test_harness_page.py",
    ("docs/testing.md", "Testing your consumers"): "packaging/test_harness_page.py",
    ("docs/testing.md", "Async tests"): "packaging/test_harness_page.py",
    ("docs/harness.md", "In ten lines"): "packaging/test_harness_page.py",
    ("docs/harness.md", "A group of members"): "packaging/test_harness_page.py",
    ("docs/harness.md", "Members of other clients"): "packaging/test_harness_page.py",
    ("docs/harness.md", "Records"): "packaging/test_harness_page.py",
    ("docs/service.md", "Your own service"): "packaging/test_harness_page.py",
    ("docs/service.md", "Records and outputs of your own"): "integration/live/test_own_records.py",
    ("docs/service.md", "In pytest"): "packaging/test_harness_page.py",
    ("docs/reading-the-report.md", "In Python"): "packaging/test_harness_page.py",
    ("docs/scenarios.md", "Faults of one member's network"): "integration/proxy/test_proxy.py",
    ("docs/secured-clusters.md", "Tokens (OAUTHBEARER)"): "connection/test_tokens.py",
    ("docs/transactions.md", "A new producer after a slow commit"): "integration/live/test_late_end_txn.py",
    ("docs/pipeline-tables.md", "In a notebook"): "pipeline/test_analyze.py",
    ("docs/monitoring.md", "Where `__consumer_offsets` is hidden"): "operator/cli/test_recorded.py",
    ("docs/assignors-without-history.md", "Assignors without history"): "packaging/test_pages.py",
    ("docs/assignors-without-history.md", "ConfigAssignor – `config`"): "packaging/test_pages.py",
}
"""Page and heading of the Python examples below it -> the test file that runs them."""


def test_every_python_example_is_run() -> None:
    """Those with a prompt below, the others by the tests in the table."""
    plain = {(b.page, b.heading) for b in blocks("python") if ">>>" not in b.code}

    assert plain == RUN_BY.keys()
    for (page, _), file in RUN_BY.items():
        assert Path(page).name in (ROOT / "tests" / file).read_text("utf-8"), f"{file} does not read {page}"


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if "\n>>> " in text])
def test_examples_with_a_prompt_say_what_the_page_says(page: str) -> None:
    test = doctest.DocTestParser().get_doctest(PAGES[page], {}, page, None, 0)
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)

    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("block", [b for b in blocks("python") if b.page == "docs/assignors-without-history.md"])
def test_consumers_of_assignors_without_history_can_be_made(block: Block) -> None:
    """The consumer's bootstrap is the default, where nothing listens: what is shown is how options are passed."""
    made: dict[str, Any] = {}
    code = block.code.replace("from kafka import KafkaConsumer", "KafkaConsumer = lambda *topics, **settings: settings")
    exec(code, made)

    assert "consumer" in made or "assignor" in made


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Every line of a shell block that isn't the inside of another language, with its words."""
    for block in blocks("sh"):
        for number, line in enumerate(block.code.splitlines(), block.line):
            if words := shlex.split(line, comments=True):
                yield f"{block.page}:{number}", words


@pytest.mark.slow
def test_every_command_line_can_be_typed() -> None:
    """Programs, commands, options and their values are those that exist; what they do has tests of its own."""
    made = {*re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)}
    extras = set(metadata("kafka-assignors").get_all("Provides-Extra"))
    seen = 0
    for place, words in command_lines():
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words = words[1:]
        if not words or words[0].startswith("-c"):  # a variable's value
            continue
        match words:
            case ["make", *targets]:
                assert {t for t in targets if "=" not in t} <= made, place
            case ["pip", "install", wanted]:
                named = re.search(r"\[(.+)\]$", wanted)
                assert named, place
                assert set(named[1].split(",")) <= extras, place
            case ["git" | "docker" | "kafka-acls.sh" | "cp", *_] | ["pip", "wheel", *_]:
                pass
            case ["spark-submit", *options]:
                job = options.index("$JOB")
                parse(place, "pipeline", options[job + 1], options[job + 2 :])
            case [python, "-m", "pytest", *options] if python.endswith("python"):
                given = {option for option in options if option.startswith("--kafka-")}
                assert all(f"| `{option}`" in PAGES["docs/testing.md"] for option in given), place
            case [python, "-m", "benchmarks" | "benchmarks.table" | "kafka_assignors.jvm", *_] if python.endswith(
                "python"
            ):
                pass
            case [python, "-m", program, command, *options] if python.endswith("python"):
                parse(place, program.removeprefix("kafka_assignors."), command, options)
            case [command, *given] if command.endswith("kafka-assignors"):
                parsed(place, given)
            case _:
                pytest.fail(f"{place}: no test knows {shlex.join(words)}")
        seen += 1
    assert seen > 25


def parse(place: str, program: str, command: str, options: list[str]) -> None:
    """As the program itself would, up to where it would begin."""
    there: Any = None if program == "kafka-assignors" else typer.main.get_command(PROGRAMS[program])
    known: dict[str, Any] = commands() if there is None else there.commands
    assert command in known, place
    refused = ""
    try:
        known[command].make_context(command, list(options))
    except click.ClickException as error:
        refused = error.format_message()
    # the reader's own file or folder is absent here
    assert not refused or re.search(r"(does not exist|No such file)", refused), f"{place}: {refused}"


def parsed(place: str, given: list[str]) -> None:
    """A line of `kafka-assignors`, whose commands have one word or two."""
    words = 2 if given[0] in ("keys", "report") else 1
    if given[0] != "--install-completion":
        parse(place, "kafka-assignors", " ".join(given[:words]), given[words:])


def test_every_scenario_that_a_page_names_is_there() -> None:
    names = {words[2] for _, words in command_lines() if words[0].endswith("kafka-assignors") and words[1] == "test"}

    assert len(names) >= 7
    assert names - {*SCENARIOS, *DRAWN} == {"mine.json"}


def files() -> list[Path]:
    listed = ran("git", "ls-files", "-z")
    found = [ROOT / each for each in listed.stdout.split("\0") if each] or list(ROOT.rglob("*"))
    kinds = {".py", ".md", ".toml", ".yml", ".html", ".j2", ".go", ".java", ""}
    return [
        f for f in found if f.is_file() and f.suffix in kinds and "results" not in f.parts and f.name != "CHANGELOG.md"
    ]


def test_every_page_that_anything_names_is_there() -> None:
    """Product, tests, Makefile and pages name a page by its path below ``docs``, with or without an anchor."""
    dead, seen = [], 0
    for path in files():
        for page, anchor in re.findall(
            r"(?<![\w/.-])docs/([\w/-]+\.md)(?:#([\w-]+))?", path.read_text("utf-8", "replace")
        ):
            seen += 1
            if f"docs/{page}" not in PAGES or (anchor and anchor not in anchors(f"docs/{page}")):
                dead.append(f"{path.relative_to(ROOT)}: docs/{page}#{anchor}")
    assert dead == []
    assert seen > 20


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    text = re.sub(r"^```.*?^```", "", PAGES[page], flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
        name, _, anchor = target.partition("#")
        there = ((ROOT / page).parent / name).resolve() if name else ROOT / page
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there.relative_to(ROOT).as_posix()), target


def test_the_index_has_every_page() -> None:
    pages = {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")} - {"index.md"}

    assert {link for link in pages if f"({link})" in PAGES["docs/index.md"]} == pages


@pytest.mark.slow
def test_the_page_of_files_is_the_codes() -> None:
    """It names every module that says something, with the module's own first sentence."""
    kept, made = (file_map.without_words(page) for page in (file_map.FILE.read_text("utf-8"), file_map.text()))
    assert kept == made, "write it anew: python -m tests.support.file_map"
    assert made.count("\n| `") > 400


def test_messages_on_the_page_of_errors_are_the_products() -> None:
    """What stands between the ellipses, in the strings of the source, joined where they continue on the next line."""
    source = "\n".join(
        path.read_text("utf-8")
        for room in ("kafka_assignors", "producers", "integration", "pipeline")
        for path in (ROOT / room).rglob("*.py")
    )
    joined = re.sub(r"\"\n\s+f?\"", "", source)
    messages = [b.code.strip() for b in blocks("text") if b.page == "docs/faq.md"]

    assert len(messages) > 10
    for message in messages:
        for part in (part.strip() for part in message.split("…")):
            assert part in joined, part
