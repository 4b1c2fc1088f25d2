"""Each private name of kafka-python that the assignors use, renamed in turn, against a real broker."""

from __future__ import annotations

import json
import sys
import uuid
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient

from kafka_assignors.clients.kafka_python import private
from kafka_assignors.integration.broker import Broker
from tests.support.kafka_python.renamed import NEW, SOME
from tests.support.programs import ran

NAMES = sorted({name for use in private.names.USED for name in use.path.split(".")})
FOUND_BY = ("_coordinator", "group_protocols")
"""How an assignor gets to its consumer's coordinator: by hand, and by itself."""

LOST = {name: tuple(use.lost for use in private.names.USED if name in use.path.split(".")) for name in NAMES}
FIRST = set({lost: name for name, lost in reversed(LOST.items())}.values())
"""Of the names without which the same is lost, one each."""
# long: a consumer's life each; what is lost without the name is lost, and told, with one of the others too
EACH = [name if name in FIRST else pytest.param(name, marks=pytest.mark.long) for name in NAMES]

# long: consumers' lives with names that the pinned kafka-python has; test_leader.py and test_in_consumer.py have some
pytestmark = [pytest.mark.broker, pytest.mark.long]


@pytest.fixture(scope="module")
def lives(
    request: pytest.FixtureRequest,
    kafka_broker: Broker,
    kafka_admin: KafkaAdminClient,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    """A consumer's life per name that the tests of this run ask for."""
    here = [item for item in request.session.items if item.path == request.path]
    asked = {item.callspec.params["name"] for item in here if hasattr(item, "callspec")}
    topics = [f"renamed-{i}-{uuid.uuid4().hex[:6]}" for i in range(2)]
    kafka_admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1} for topic in topics})
    kafka_admin.wait_for_topics(topics)
    names = ["", *sorted(asked)]
    command = [sys.executable, "-m", "tests.support.kafka_python.renamed", str(tmp_path_factory.mktemp("renamed"))]
    command += [kafka_broker.bootstrap, json.dumps(names), json.dumps(topics)]
    done = ran(*command, within_s=400)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def well(life: dict[str, Any]) -> bool:
    """The consumer joined twice, committed and closed, and nothing missed an attribute."""
    assert life["error"] == ""
    assert life["attribute_errors"] == []
    return True


def warnings_of(life: dict[str, Any]) -> list[str]:
    """The warnings about kafka-python; facts of the cluster and the group are left out."""
    return [each for each in life["warnings"] if "kafka-python" in each]


def test_without_a_renamed_name_there_is_no_warning(lives: dict[str, Any]) -> None:
    assert well(lives[""])
    assert warnings_of(lives[""]) == []
    assert [lives[""][each] for each in ("seen", "refused", "attach", "guard")] == [True, "ConfigError", "fine", "fine"]


@pytest.mark.parametrize("name", EACH)
def test_a_renamed_name_is_one_warning_with_its_consequence(lives: dict[str, Any], name: str) -> None:
    life = lives[name]
    assert life["places"] >= 2, "where it is made, and where it is used"
    assert well(life)
    (warning,) = warnings_of(life)
    assert warning.partition(" has no ")[2].startswith(f"{name!r}, which kafka-assignors uses. Without it: ")
    assert all(each in warning for each in LOST[name])
    guarded = name not in {part for path in private.names.GUARD for part in path.split(".")}
    assert life["guard"] == ("fine" if guarded else "ConfigError")
    shared = "one assignor instance in two open consumers is not detected"
    assert life["refused"] == ("fine" if shared in LOST[name] else "ConfigError")


@pytest.mark.parametrize("name", FOUND_BY)
def test_an_assignor_that_finds_its_consumer_one_way_alone(lives: dict[str, Any], name: str) -> None:
    life = lives[name]
    assert well(life)
    by_hand = name == "group_protocols"
    assert (life["seen"], life["attach"]) == ((False, "fine") if by_hand else (True, "ConfigError"))
    said = [each.partition(",")[0] for each in warnings_of(life)]
    assert said == []  # as it was attached before the first poll; `test_in_consumer` has it otherwise


def test_the_names_are_all_that_is_renamed() -> None:
    assert {*SOME} <= {*NAMES}
    assert NEW.format("x") != "x"
