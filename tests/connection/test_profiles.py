"""Profiles: which settings a section gives, and what is said of one that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_assignors.connection import read_connection
from kafka_assignors.errors import ConfigError
from kafka_assignors.operator.cli.app import main

TWO = """
request.timeout.ms=4000
[local]
bootstrap.servers=localhost:9092
[prod]
bootstrap.servers=broker-1:9093
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.username=alice
sasl.password=${env:SECRET}
request.timeout.ms=9000
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kafka-assignors" / "profiles.properties"
    path.parent.mkdir()
    path.write_text(TWO)
    return path


def refused(text: str, profile: str | None, tmp_path: Path) -> str:
    path = tmp_path / "some.properties"
    path.write_text(text)
    with pytest.raises(ConfigError) as told:
        read_connection(config=path, profile=profile, environment={})
    assert str(path) in str(told.value)
    return str(told.value)


def test_a_profile_has_the_common_settings_and_its_own(file: Path):
    local = read_connection(config=file, profile="local", environment={})
    assert (local.bootstrap, local.protocol, local.request_timeout) == ("localhost:9092", "PLAINTEXT", "4000")
    prod = read_connection(config=file, profile="prod", environment={"SECRET": "wonderland"})
    assert (prod.bootstrap, prod.username, prod.password) == ("broker-1:9093", "alice", "wonderland")
    assert prod.request_timeout == "9000", "its own setting wins over the common one"


def test_without_a_file_the_user_s_own_is_read(file: Path, monkeypatch: pytest.MonkeyPatch):
    found = read_connection(profile="local", environment={"XDG_CONFIG_HOME": str(file.parents[1])})
    assert found.bootstrap == "localhost:9092"
    monkeypatch.setattr(Path, "home", classmethod(lambda cls: file.parents[1]))
    with pytest.raises(
        ConfigError, match=r"--profile local: .*/\.config/kafka-assignors/profiles\.properties can't be"
    ):
        read_connection(profile="local", environment={})


def test_options_override_a_profile(file: Path):
    found = read_connection("other:1", file, ["request.timeout.ms=5"], profile="local", environment={})
    assert (found.bootstrap, found.request_timeout) == ("other:1", "5")


def test_what_is_wrong_with_a_profile_is_told_with_its_remedy(tmp_path: Path):
    assert "has the profiles local, prod; name one with --profile NAME" in refused(TWO, None, tmp_path)
    assert "no section [prd]; did you mean prod?" in refused(TWO, "prd", tmp_path)
    assert "no section [x]; it has local, prod" in refused(TWO, "x", tmp_path)
    assert "no section [x]; it has no profiles" in refused("bootstrap.servers=b:1", "x", tmp_path)
    assert "line 3: profile 'a' is there twice" in refused("[a]\n[b]\n[a]\n", "a", tmp_path)
    assert "line 1: '[my prod]' is not [NAME]" in refused("[my prod]\n", "my", tmp_path)
    assert "line 2: unknown setting 'bootstrap.server'" in refused("[a]\nbootstrap.server=b:1", "a", tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "why g", "plan g", "vote g", "exporter g", "watch g --once", "test churn", "demo", "keys place orders k",
        "report run --topics orders --out tables", "report stream --topics orders --out tables",
    ],
)  # fmt: skip
def test_every_command_takes_the_profile_and_not_the_variable(
    line: str, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "127.0.0.1:2")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(file.parents[1]))
    file.write_text("[dead]\nbootstrap.servers=127.0.0.1:99999\n")
    assert main([*line.split(), "--profile", "dead"]) in (2, 3)
    assert "99999" in capsys.readouterr().err
    assert main([*line.split(), "--profile", "daed"]) in (2, 3)
    assert "did you mean dead?" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("line", ["why g", "watch g --once", "keys place orders k"])
@pytest.mark.usefixtures("impatient")
def test_the_variable_names_the_cluster_only_where_a_file_names_none(
    line: str, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "127.0.0.1:2")
    file.write_text("client.id=me\n")
    assert main([*line.split(), "--config", str(file)]) == 3
    assert "127.0.0.1:2" in capsys.readouterr().err
    file.write_text("bootstrap.servers=127.0.0.1:1\n")
    assert main([*line.split(), "--config", str(file)]) == 3
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_the_doctor_checks_the_cluster_of_a_profile(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("KAFKA_BOOTSTRAP", raising=False)
    file.write_text("[dead]\nbootstrap.servers=127.0.0.1:1\n")
    assert main(["doctor", "--config", str(file), "--profile", "dead"]) == 1
    monkeypatch.setenv("XDG_CONFIG_HOME", str(file.parents[1]))
    assert main(["doctor", "--profile", "dead"]) == 1
    assert capsys.readouterr().out.count("127.0.0.1:1") == 2
