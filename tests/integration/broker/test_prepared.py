"""Class data: used by every node, made anew for another Java, and done without where none can be made."""

from __future__ import annotations

import logging
import os
import shutil
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from kafka_assignors.integration.broker import KAFKA_VERSION
from kafka_assignors.integration.broker.nodes.prepared import class_data, formatted_storage
from kafka_assignors.jvm import cache_folder, java, kafka_jars

VERSION = KAFKA_VERSION


@pytest.fixture
def jars():
    return kafka_jars(VERSION)


@pytest.fixture
def own_cache(monkeypatch, tmp_path, jars):
    """A cache with formatted storage alone."""
    storage = formatted_storage(java(), jars, VERSION)
    shutil.copytree(storage, tmp_path / "cache" / storage.name)
    monkeypatch.setenv("KAFKA_ASSIGNORS_CACHE", str(tmp_path / "cache"))


@pytest.mark.broker
def test_a_broker_has_the_archive_in_its_memory(kafka_broker, jars):
    (option,) = class_data(java(), jars, VERSION)
    archive = Path(option.partition("=")[2].split(os.pathsep)[-1])
    (jvm,) = [p for p in map(psutil.Process, kafka_broker.pids()) if p.name() == "java"]

    assert archive.parent == cache_folder() / "class-data"
    assert str(archive) in {mapped.path for mapped in jvm.memory_maps()}


@pytest.mark.slow
def test_another_build_of_java_gets_no_archive_of_this_one(own_cache, jars, tmp_path, capsys, caplog):
    """And one that can make none is asked once: the next node starts without at once."""
    asked = tmp_path / "asked"
    program = tmp_path / "java"
    program.write_text(
        f'#!/bin/sh\necho "$*" >> {asked}\n[ "$2" = -version ] || {{ echo no classes today; exit 4; }}\n'
    )
    program.chmod(0o755)
    other = replace(java(), executable=program, build="another build")

    with caplog.at_level(logging.WARNING):
        assert class_data(other, jars, VERSION) == ()
        first = asked.read_text()
        assert class_data(other, jars, VERSION) == ()

    assert "-XX:ArchiveClassesAtExit=" in first
    assert asked.read_text() == first
    (failure,) = (cache_folder() / "class-data").glob("*.failed")
    assert "ended with exit code 4" in failure.read_text()
    assert "no classes today" in failure.read_text()
    assert f"remove {failure} to try again" in caplog.text
    assert capsys.readouterr().err.count("preparing the classes of Kafka " + VERSION) == 1
    assert list((cache_folder() / "class-data").glob("*.jsa")) == []
