"""``make release-check``: builds wheel and sdist, checks them, and installs them clean on each Python that it finds.

A check that could not run (a Python or a service that is missing) is listed at the end; it is no failure. Exit code 1:
a check failed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUT = ROOT / "build" / "release"
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
CORE = {"kafka-assignors", "numpy", "scipy"}
IMPORT_MS = 60
SMOKE = (
    "from kafka_assignors import Group, Member, plan; from pathlib import Path; import kafka_assignors; "
    "assert (Path(kafka_assignors.__file__).parent / 'py.typed').exists(); "
    "print(plan(Group([Member('a', {'t'}), Member('b', {'t'})], {'t': 4}), 'cooperative-sticky'))"
)
TIMED = "import time; began = time.perf_counter(); import kafka_assignors; print(1e3 * (time.perf_counter() - began))"
failed: list[str] = []
not_run: list[str] = []


def run(what: str, *command: str | Path) -> str | None:
    """The command's output; None if it failed, which is kept."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, cwd=OUT)
    print(f"{'ok    ' if done.returncode == 0 else 'FAILED'}  {what}", flush=True)
    if done.returncode:
        failed.append(what)
        print((done.stdout + done.stderr)[-2000:])
        return None
    return done.stdout


def python_of(version: str) -> str | None:
    """A Python of this version: on PATH, or of pyenv."""
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return str(found[-1]) if found else shutil.which(f"python{version}")


def installed(version: str, python: str, package: Path, where: Path) -> None:
    """Install one file into an empty environment and use it there."""
    what = f"{package.name} on {version}"
    if run(f"{what}: venv", python, "-m", "venv", where) is None:
        return
    own = where / "bin" / "python"
    if run(f"{what}: install", own, "-m", "pip", "install", "--quiet", package) is None:
        return
    listed = run(f"{what}: list", own, "-m", "pip", "list", "--format=freeze") or ""
    extra = (
        {re.split("[=@ ]", line)[0].lower() for line in listed.split("\n") if line}
        - CORE
        - {"pip", "setuptools", "wheel"}
    )
    if extra:
        failed.append(f"{what}: also installed {', '.join(sorted(extra))}")
    run(f"{what}: pip check", own, "-m", "pip", "check")
    run(f"{what}: plan", own, "-c", SMOKE)
    times = [float(run(f"{what}: import", own, "-c", TIMED) or "inf") for _ in range(3)]
    print(f"        import of kafka_assignors: {min(times):.0f} ms (limit {IMPORT_MS})")
    if min(times) > IMPORT_MS:
        failed.append(f"{what}: import took {min(times):.0f} ms")


def main() -> int:
    """Run all checks; the exit code."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    run("build", sys.executable, "-m", "build", "--outdir", OUT / "dist", ROOT)
    files = sorted((OUT / "dist").glob("kafka_assignors-*"))
    wheels = [file for file in files if file.suffix == ".whl"]
    if len(files) != 2 or len(wheels) != 1:
        print(f"error: expected a wheel and an sdist, found {[file.name for file in files]}", file=sys.stderr)
        return 1
    run("check-wheel-contents", Path(sys.executable).parent / "check-wheel-contents", wheels[0])
    with tempfile.TemporaryDirectory() as made:
        tools = Path(made) / "tools"
        run("tools", sys.executable, "-m", "venv", tools)
        if run("twine", tools / "bin" / "pip", "install", "--quiet", "twine", "pip-audit") is not None:
            run("twine check", tools / "bin" / "twine", "check", "--strict", *files)
            audit(tools / "bin" / "pip-audit")
        for version in PYTHONS:
            python = python_of(version)
            if python is None:
                not_run.append(f"Python {version} was not found: nothing is known about it")
                continue
            for file in files if version == PYTHONS[0] else wheels:
                installed(version, python, file, Path(made) / f"{version}{file.suffix}")
    for line in not_run:
        print(f"NOT CHECKED: {line}")
    for line in failed:
        print(f"FAILED: {line}")
    return 1 if failed else 0


def audit(pip_audit: Path) -> None:
    """Known defects of the pinned packages, and the bill of materials (CycloneDX) beside the wheel."""
    pinned = ROOT / "constraints.txt"
    command = [pip_audit, "--requirement", pinned, "--no-deps", "--disable-pip", "--format", "cyclonedx-json"]
    done = subprocess.run(
        [*map(str, command), "--output", str(OUT / "sbom.json")], capture_output=True, text=True, check=False
    )
    said = done.stderr.strip().split("\n")[-1]
    if done.returncode == 0:
        print("ok      pip-audit; build/release/sbom.json")
    elif "vulnerabilit" in said and "Found" in said:
        failed.append(f"pip-audit: {said}")
    else:
        not_run.append(f"pip-audit could not ask its service: {said[:200]}")


if __name__ == "__main__":
    sys.exit(main())
