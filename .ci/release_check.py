"""``make release-check``: builds wheel and sdist, checks them, and installs them clean on each Python that it finds.

A check that could not run (a Python or a service that is missing) is no failure: the end lists it as UNKNOWN, and the
last line counts what is unknown. Exit code 1: a check failed.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUT = ROOT / "build" / "release"
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
CORE = {"kafka-assignors", "numpy"}
IMPORT_MS = 60
SMOKE = (
    "from kafka_assignors import Group, Member, plan; from pathlib import Path; import kafka_assignors; "
    "assert (Path(kafka_assignors.__file__).parent / 'py.typed').exists(); "
    "print(plan(Group([Member('a', {'t'}), Member('b', {'t'})], {'t': 4}), 'cooperative-sticky'))"
)
TIMED = "import time; began = time.perf_counter(); import kafka_assignors; print(1e3 * (time.perf_counter() - began))"
failed: list[str] = []
unknown: list[str] = []


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
    bill_of_materials()
    with tempfile.TemporaryDirectory() as made:
        tools = Path(made) / "tools"
        run("tools", sys.executable, "-m", "venv", tools)
        if run("twine", tools / "bin" / "pip", "install", "--quiet", "twine", "pip-audit") is not None:
            run("twine check", tools / "bin" / "twine", "check", "--strict", *files)
            audit(tools / "bin" / "pip-audit")
        for version in PYTHONS:
            python = python_of(version)
            if python is None:
                unknown.append(f"Python {version} was not found: nothing is known about it")
                continue
            for file in files if version == PYTHONS[0] else wheels:
                installed(version, python, file, Path(made) / f"{version}{file.suffix}")
    return told()


def told() -> int:
    """What failed and what is unknown, at the end; the exit code."""
    for line in unknown:
        print(f"UNKNOWN  {line}")
    for line in failed:
        print(f"FAILED   {line}")
    print(f"release-check: {len(failed)} failed, {len(unknown)} unknown" + (": NOT a whole check" if unknown else ""))
    return 1 if failed else 0


def pinned() -> list[tuple[str, str]]:
    """Name and version of each package of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    return [(name, version) for line in lines if "==" in line for name, version in [line.split(";")[0].split("==")]]


def bill_of_materials() -> None:
    """The pinned packages as CycloneDX, beside the wheel."""
    components = [
        {"type": "library", "name": name, "version": version.strip(), "purl": f"pkg:pypi/{name}@{version.strip()}"}
        for name, version in pinned()
    ]
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": components}
    (OUT / "sbom.json").write_text(json.dumps(bill, indent=1), "utf-8")
    print(f"ok      build/release/sbom.json: {len(components)} packages")


def audit(pip_audit: Path) -> None:
    """Known defects of the pinned packages. A service that doesn't answer for a package has not audited it."""
    command = [pip_audit, "--requirement", ROOT / "constraints.txt", "--no-deps", "--disable-pip", "--format", "json"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    audited(done.stdout, done.stderr, len(pinned()))


def audited(out: str, err: str, packages: int) -> None:
    """Keep what pip-audit said of so many packages."""
    try:
        rows = json.loads(out)["dependencies"]
    except (ValueError, LookupError, TypeError):
        said = " ".join(err.split())[-200:] or "no answer"
        unknown.append(f"pip-audit: whether any of {packages} pinned packages has a known defect: {said}")
        return
    failed.extend(f"pip-audit: {row['name']} has {found['id']}" for row in rows for found in row.get("vulns", ()))
    known = sum("skip_reason" not in row for row in rows)
    if known < packages:
        why = next((row["skip_reason"] for row in rows if "skip_reason" in row), "they are missing from the answer")
        unknown.append(
            f"pip-audit: whether {packages - known} of {packages} pinned packages have a known defect; the advisory "
            f"service didn't tell: {why}"
        )
    else:
        print(f"ok      pip-audit: {known} packages")


if __name__ == "__main__":
    sys.exit(main())
