"""``make release-check``: builds wheel and sdist, checks them, and installs them clean on each Python that it finds.

It then publishes them to an index of its own on loopback, installs from there into an empty environment, and runs
README's first Python example in that environment, in a group of the checkout's own broker.

A check that could not run (a Python or a service that is missing) is no failure: the end lists it as UNKNOWN, and the
last line counts what is unknown. LACKS is what a publication needs and the checkout has not yet; with ``--release`` it
is a failure. Exit code 1: a check failed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from loopback_index import LoopbackIndex, digest

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
HINT = "from kafka_assignors.extras import install; print(install('cli'))"
EXAMPLE_S = 180
"""How long the broker may take to be up, and the example to print its first record."""
failed: list[str] = []
unknown: list[str] = []
lacking: list[str] = []


def run(what: str, *command: str | Path, **variables: str) -> str | None:
    """The command's output; None if it failed, which is kept."""
    words, environment = [str(word) for word in command], {**os.environ, **variables}
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=OUT, env=environment)
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


def published(twine: Path, files: list[Path], where: Path) -> None:
    """Upload the files to an index of our own, install from it into an empty environment, and use that as a user would.

    Other packages come from the index that pip is configured for.
    """
    with LoopbackIndex(where / "index") as index:
        far = {"PIP_EXTRA_INDEX_URL": index.simple_url, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        to = ("--repository-url", index.upload_url, "--username", "nobody", "--password", "none")
        if run("upload", twine, "upload", "--non-interactive", "--disable-progress-bar", *to, *files, **far) is None:
            return
        if run("published: venv", sys.executable, "-m", "venv", where / "user") is None:
            return
        python, report = where / "user" / "bin" / "python", where / "report.json"
        wanted = f"kafka-assignors[kafka-python]=={project()['version']}"
        pip = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        if run("published: install", python, *pip, "--report", report, wanted, **far) is None:
            return
        origin(report.read_text("utf-8"), index.url, {file.name: digest(file.read_bytes()) for file in files})
        hint = shlex.split(run("published: hint", python, "-c", HINT, **far) or "")
        if hint[:2] != ["pip", "install"]:
            failed.append(f"published: the hint is {shlex.join(hint)!r}")
        else:
            run(f"published: {shlex.join(hint)}", python, *pip, *hint[2:], **far)
        first_example(python)


def origin(report: str, url: str, digests: dict[str, str]) -> None:
    """Whether pip took the distribution from this index, with the bytes that were uploaded; its report as JSON."""
    rows = [row for row in json.loads(report)["install"] if row["metadata"]["name"] == "kafka-assignors"]
    for taken in (row["download_info"] for row in rows):
        name = taken["url"].rpartition("/")[2]
        if not taken["url"].startswith(f"{url}/") or taken["archive_info"]["hashes"]["sha256"] != digests.get(name):
            failed.append(f"published: pip took {taken['url']}, which is not what was uploaded")
    if len(rows) != 1:
        failed.append(f"published: pip installed kafka-assignors {len(rows)} times")


def first_example(python: Path) -> None:
    """README's first Python example, as a member of the group that the checkout's `up --play` has."""
    code = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)[0]
    up = subprocess.Popen([sys.executable, "-u", "-m", "kafka_assignors", "up", "--play", "--json"], cwd=OUT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    watchdog = threading.Timer(EXAMPLE_S, up.kill)
    watchdog.start()
    try:
        assert up.stdout is not None
        shown = up.stdout.readline()
        watchdog.cancel()
        if not shown:
            unknown.append(f"README's first example: no broker: {' '.join(up.communicate()[1].split())[-200:]}")
            return
        code = code.replace("localhost:9092", json.loads(shown)["bootstrap"])
        line = first_line([python, "-u", "-c", code])
        print(f"{'ok    ' if line else 'FAILED'}  README's first example: {line or 'no record'}", flush=True)
        if not re.match(r"\d+ \d+ b'", line):
            failed.append(f"README's first example printed {line!r}")
    finally:
        watchdog.cancel()
        up.terminate()
        up.communicate()


def first_line(command: list[str | Path]) -> str:
    """The first line that an endless program prints within the limit; it is then ended. Empty if there is none."""
    program = subprocess.Popen([str(word) for word in command], cwd=OUT, text=True, stdout=subprocess.PIPE)
    watchdog = threading.Timer(EXAMPLE_S, program.kill)
    watchdog.start()
    try:
        assert program.stdout is not None
        return program.stdout.readline().strip()
    finally:
        watchdog.cancel()
        program.kill()
        program.communicate()


def project() -> dict[str, str]:
    """Plain values of ``[project]`` in pyproject.toml; Python 3.10 has no reader of TOML."""
    table = (ROOT / "pyproject.toml").read_text("utf-8").partition("[project]\n")[2].partition("\n[")[0]
    return dict(re.findall(r"^(\w[\w-]*) = \"?(.*?)\"?$", table, re.MULTILINE))


def lacks(pyproject: str, changelog: str, extras: str, tags: list[str], version: str) -> list[str]:
    """What a publication needs and these texts have not."""
    rules = {
        "pyproject.toml has no [project.urls]: the repository's address": "\n[project.urls]\n" in pyproject,
        "pyproject.toml has no authors": "\nauthors = " in pyproject,
        f"CHANGELOG.md has no date for {version}": re.search(
            rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changelog, re.MULTILINE
        ),
        "kafka_assignors/extras.py: PUBLISHED is False, so README, docs and hints say that nothing is published": (
            "\nPUBLISHED = True\n" in extras
        ),
        f"the commit has no tag v{version}": f"v{version}" in tags,
    }
    return [lack for lack, there in rules.items() if not there]


def note_lacking() -> None:
    """Keep what a publication of this commit lacks."""
    names = ("pyproject.toml", "CHANGELOG.md", "kafka_assignors/extras.py")
    texts = [(ROOT / name).read_text("utf-8") for name in names]
    tags = subprocess.run(["git", "tag", "--points-at", "HEAD"], capture_output=True, text=True, check=False, cwd=ROOT)
    lacking.extend(lacks(texts[0], texts[1], texts[2], tags.stdout.split(), project()["version"]))


def main() -> int:
    """Run all checks; the exit code."""
    release = "--release" in sys.argv[1:]
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
            published(tools / "bin" / "twine", files, Path(made))
        for version in PYTHONS:
            python = python_of(version)
            if python is None:
                unknown.append(f"Python {version} was not found: nothing is known about it")
                continue
            for file in files if version == PYTHONS[0] else wheels:
                installed(version, python, file, Path(made) / f"{version}{file.suffix}")
    note_lacking()
    if release:
        failed.extend(lacking)
    return told()


def told() -> int:
    """What failed, what is unknown and what a publication lacks, at the end; the exit code."""
    for line in lacking:
        print(f"LACKS    {line}")
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
