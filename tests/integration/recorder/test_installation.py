"""The recorder in a process: by PYTHONPATH, beside another sitecustomize, around modules of any loader."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest

from kafka_assignors.integration.recorder import kafka_assignors_recorder as recorder
from tests.support import programs

FOLDER = Path(recorder.__file__).parents[1]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KAFKA_ASSIGNORS"))}


def ran(program: str, *folders: Path | str, recording: Path | None = None) -> tuple[str, str, int]:
    """What a Python program with these folders in its PYTHONPATH prints, what it says on standard error, its code."""
    environment = {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    if recording is not None:
        environment |= {recorder.FILE: str(recording), recorder.GROUP: "billing"}
    command = [sys.executable, "-c", program]
    done = programs.ran(*command, env=environment)
    return done.stdout, done.stderr, done.returncode


@pytest.mark.parametrize("recording", [False, True])
def test_nothing_else_is_seen_of_it(recording: bool, tmp_path: Path) -> None:
    program = "import sys; print(sys.path)"

    assert ran(program, FOLDER, tmp_path, recording=tmp_path / "record" if recording else None) == ran(
        program, tmp_path
    )


def test_its_folder_may_be_written_in_another_way(tmp_path: Path) -> None:
    program = "import sys; print(sys.path)"
    link = tmp_path / "link"
    link.symlink_to(FOLDER)

    for folder in (f"{FOLDER}/", f"{FOLDER}/../recorder", link):
        assert ran(program, folder, tmp_path) == ran(program, tmp_path)


def test_the_services_own_sitecustomize_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.mine = __file__")
    program = "import sys, sitecustomize; print(sys.mine, sitecustomize.__file__)"

    mine = tmp_path / "sitecustomize.py"
    assert ran(program, FOLDER, tmp_path, recording=tmp_path / "record") == (f"{mine} {mine}\n", "", 0)


@pytest.mark.parametrize("defect", ["raise ValueError('mine')", "import a_module_that_is_missing"])
def test_a_defect_of_the_services_own_sitecustomize_stays_what_it_is(defect: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(defect)

    assert ran("print(1)", FOLDER, tmp_path) == ran("print(1)", tmp_path)


def test_a_defect_of_the_recorders_is_told_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_bytes((FOLDER / "sitecustomize.py").read_bytes())
    (tmp_path / "kafka_assignors_recorder.py").write_text("def install(): raise ValueError('mine')")

    output, told_once, code = ran("print(1)", tmp_path)

    assert (output, code) == ("1\n", 0)
    assert told_once == "kafka-assignors: this process is not recorded: ValueError: mine\n"


def test_it_imports_little(tmp_path: Path) -> None:
    """It starts in every process of a service, also in those without a consumer."""
    program = "import sys; print(*sys.modules)"
    without, _, _ = ran(program, tmp_path)
    recording, _, _ = ran(program, FOLDER, tmp_path, recording=tmp_path / "record")

    more = {name.partition(".")[0].lstrip("_") for name in set(recording.split()) - set(without.split())}
    assert not more & {"typing", "importlib", "inspect", "asyncio", "logging", "kafka"}, more


CLIENT = """
class ConsumerCoordinator:
    {methods}

class ConsumerProtocolAssignment:
    decode = None

place = __file__, type(__loader__).__name__, type(__spec__.loader).__name__
"""
METHODS = "\n    ".join(
    f"async def {name}(self): return 1"
    for name in (
        "_on_join_prepare_async", "_on_join_complete_async", "_on_close_prepare_async",
        "_invoke_rebalance_listener_async", "_send_offset_commit_request",
    )
)  # fmt: skip
IMPORTED = """
import importlib, inspect, pickle, sys
import kafka.coordinator.consumer as module, kafka.coordinator.other as other
print(module.place, type(module.__loader__).__name__, module.__spec__.name, inspect.getsource(other).strip())
"""
WRAPPED = "print(hasattr(module.ConsumerCoordinator.__init__, '__wrapped__'))"
RELOADED = "importlib.reload(module)"


def package(folder: Path, methods: str) -> Path:
    """A client's package with the names of kafka-python's."""
    inner = folder / "kafka" / "coordinator"
    inner.mkdir(parents=True)
    for place in (inner.parent, inner):
        (place / "__init__.py").write_text("")
    (inner / "consumer.py").write_text(CLIENT.format(methods=methods))
    (inner / "other.py").write_text("value = 1")
    return folder


@pytest.mark.parametrize("zipped", [False, True])
def test_a_module_is_imported_as_without_it(zipped: bool, tmp_path: Path) -> None:
    """An archive's modules share one loader, which must not change. A module may be loaded anew."""
    folder = package(tmp_path / "library", METHODS)
    if zipped:
        archive = tmp_path / "library.zip"
        with zipfile.ZipFile(archive, "w") as file:
            for path in folder.rglob("*.py"):
                file.write(path, path.relative_to(folder))
        folder = archive

    recording = tmp_path / "record"
    assert ran(IMPORTED, FOLDER, folder, recording=recording) == ran(IMPORTED, folder)
    program = "\n".join((IMPORTED, WRAPPED, RELOADED, WRAPPED))
    assert ran(program, FOLDER, folder, recording=recording)[0].splitlines()[1:] == ["True", "True"]


def test_a_client_of_another_version_is_told_and_used(tmp_path: Path) -> None:
    folder = package(tmp_path / "library", "pass")

    output, message, code = ran(f"{IMPORTED}{WRAPPED}", FOLDER, folder, recording=tmp_path / "record")

    assert (output.splitlines()[-1], code) == ("False", 0)
    assert message.startswith("kafka-assignors: kafka.coordinator.consumer is not recorded: AttributeError(")
    assert message.count("\n") == 1


def test_an_import_that_fails_can_be_repeated(tmp_path: Path) -> None:
    folder = package(tmp_path / "library", METHODS)
    path = folder / "kafka/coordinator/consumer.py"
    program = f"""
import pathlib, sys
sys.dont_write_bytecode = True
path = pathlib.Path({str(path)!r})
text = path.read_text()
path.write_text("import missing_library")
try:
    import kafka.coordinator.consumer
except ImportError as error:
    print(error.name)
path.write_text(text)
import kafka.coordinator.consumer as module
{WRAPPED}
"""
    assert ran(program, FOLDER, folder, recording=tmp_path / "record") == ("missing_library\nTrue\n", "", 0)


@pytest.mark.slow
def test_the_clients_own_modules_are_wrapped(tmp_path: Path) -> None:
    program = """
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.coordinator.consumer import ConsumerCoordinator
methods = [KafkaConsumer.poll, ConsumerCoordinator.__init__]
methods += [producer.begin_transaction for producer in (AIOKafkaProducer, Producer, KafkaProducer)]
print(*{hasattr(method, "__wrapped__") for method in methods})
"""
    assert ran(program, FOLDER, recording=tmp_path / "record") == ("True\n", "", 0)
    assert ran(program, FOLDER) == ("False\n", "", 0)


def test_modules_that_are_imported_before_are_wrapped(tmp_path: Path) -> None:
    """By a .pth file of the environment's, say."""
    folder = package(tmp_path / "library", METHODS)
    (tmp_path / "sitecustomize.py").write_text(
        f"import kafka.coordinator.consumer\nexec(open({str(FOLDER / 'sitecustomize.py')!r}).read())"
    )
    program = f"import kafka.coordinator.consumer as module\n{WRAPPED}"

    assert ran(program, tmp_path, FOLDER, folder, recording=tmp_path / "record")[::2] == ("True\n", 0)
