"""Every command on a live cluster of three brokers, with groups of Java, kafka-python and librdkafka.

Each command is shown by its exit code and one fact that the harness knows of the group; other files test it in full.
"""

from __future__ import annotations

import base64
import json
import signal
import sys
import uuid
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaProducer

from kafka_assignors.integration.broker.cluster import Cluster
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.members.stability import Stable
from kafka_assignors.operator.cli.app import main
from kafka_assignors.operator.cli.serving.exporter import PREFIX
from tests.support.cli import answered, cli, commands, valid
from tests.support.integration.fixtures import MakeTopic
from tests.support.live.exporting import exporting, scraped
from tests.support.programs import running

PARTITIONS = 6
ON_A_GROUP = (
    "plan", "why", "vote", "groups", "watch", "scale", "exporter", "keys place", "keys audit", "keys growth", "doctor",
    "explain", "judge",
)  # fmt: skip
WITH_A_RUN = ("test", "report run", "report stream", "report page")
OF_ITS_OWN = ("up", "demo")
GROUPS = [
    pytest.param({"j": "java", "p": "kafka-python", "r": "confluent"}, id="mixed"),
    *(
        pytest.param({"m1": client, "m2": client}, id=client, marks=pytest.mark.long)
        for client in ("java", "kafka-python", "confluent")
    ),
]


@pytest.fixture
def topic(kafka_cluster_topic: MakeTopic) -> str:
    return kafka_cluster_topic(partitions=PARTITIONS, name="toured")


@pytest.fixture
def placed(kafka_cluster: Cluster, topic: str) -> dict[str, int]:
    """Records of 60 keys -> the partition that kafka-python has placed each on."""
    keys = [f"user-{n}" for n in range(60)]
    with closing(KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap)) as sending:
        sent = {key: sending.send(topic, b"paid", key=key.encode()) for key in keys}
        return {key: each.get(30).partition for key, each in sent.items()}


@pytest.fixture
def group(kafka_cluster: Cluster, tmp_path: Path) -> Iterator[MemberGroup]:
    name = f"g-{uuid.uuid4().hex[:8]}"
    with MemberGroup(kafka_cluster.bootstrap, name, tmp_path / "history", "tour") as made:
        yield made


def test_the_tour_has_every_command() -> None:
    assert {*ON_A_GROUP, *WITH_A_RUN, *OF_ITS_OWN} == set(commands())


@pytest.mark.slow
@pytest.mark.parametrize("clients", GROUPS)
def test_every_command_on_a_live_group(
    clients: dict[str, str], kafka_cluster: Cluster, topic: str, placed: dict[str, int], group: MemberGroup
) -> None:
    """Members join one after another, so that the log has a rebalance; then every command; then the verdict."""
    for name, client in clients.items():
        group.start(name, [topic], ["range"], client=client)
        stable = group.wait_stable()
    where = ("-b", kafka_cluster.bootstrap)

    _the_group_is_seen(group.group, where, clients, stable)
    _keys_are_seen(topic, where, placed)
    assert group.wait_stable(timeout_s=5).generation == stable.generation, "looking has disturbed nothing"
    group.drain()
    for name in clients:
        group.stop(name)
    group.close()

    judged = answered("judge", cli("judge", str(group.folder), "--json"))
    assert judged["value"] is True
    assert {"O1", "O2"} <= {law for law, times in judged["laws"].items() if times}
    assert answered("explain", cli("explain", "O2", "--json"))["kind"] == "law"


def _the_group_is_seen(group: str, where: tuple[str, ...], clients: Collection[str], stable: Stable) -> None:
    plan = answered("plan", cli("plan", group, *where, "-A", "range", "-A", "sticky", "--add", "1", "--json"))
    assert plan["elected"] == "range"
    assert {one["name"]: [tuple(tp) for tp in one["owned"]] for one in plan["members"]} == {
        name: [(topic, p) for topic, ids in topics.items() for p in ids] for name, topics in stable.owned.items()
    }
    then = len(clients) + 1
    even = [PARTITIONS // then, -(-PARTITIONS // then)]
    assert [one["loads"] for one in plan["plans"]] == [even, even]
    assert plan["plans"][1]["moves"] <= plan["plans"][0]["moves"], "sticky moves no more than range"

    told = answered("why", cli("why", group, *where, "--json"))["rebalances"]
    assert told[-1]["generations"][-1] == stable.generation
    assert [cause["kind"] for cause in told[-1]["causes"]] == ["joined"]
    assert [cause["who"] for cause in told[-1]["causes"]] == [list(clients)[-1]]

    vote = answered("vote", cli("vote", group, *where, "--offer", "*=range", "--adding", "sticky", "--json"), 1)
    assert (vote["elected"], vote["allowed"]) == ("range", False)

    [line] = answered("groups", cli("groups", group, *where, "--json"))["groups"]
    seen = [line[name] for name in ("state", "protocol", "members", "unknown")]
    assert seen == ["Stable", "range", len(clients), []]

    watched = answered("watch", cli("watch", group, *where, "--once", "--json"))
    assert sorted(watched["members"]) == sorted(clients)
    assert {(one["member"], one["partition"]) for one in watched["owned"]} == {
        (name, p) for name, topics in stable.owned.items() for ids in topics.values() for p in ids
    }

    scale = answered("scale", cli("scale", group, *where, "--over", "6s", "--pace", "100", "--json"), 1)
    assert [scale[name] for name in ("now", "rate", "assignor", "measured")] == [len(clients), 0, "range", True]
    assert scale["members"] == 1, "nothing arrives: one reads it all, and the code says that the group has more"
    assert {PARTITIONS, 1} <= {size["members"] for size in scale["sizes"]}

    with exporting(group, *where) as (url, _):
        scrape = scraped(url)
    label = ("group", group)
    assert scrape[f"{PREFIX}generation", label] == stable.generation
    assert (scrape[f"{PREFIX}members", label], scrape[f"{PREFIX}imbalance_ratio", label]) == (len(clients), 1)

    checks = answered("doctor", cli("doctor", *where, "--group", group, "--json"))["checks"]
    found = {check["name"]: check["found"] for check in checks if check["ok"]}
    assert found["cluster"].startswith("3 brokers, racks a, b, c")
    assert found["group"] == f"{group}: Stable"


def _keys_are_seen(topic: str, where: tuple[str, ...], placed: dict[str, int]) -> None:
    place = answered("keys-place", cli("keys", "place", topic, *placed, *where, "--json"))
    assert {base64.b64decode(one["key_base64"]).decode(): one["partition"]["Java"] for one in place["keys"]} == placed

    audit = answered("keys-audit", cli("keys", "audit", topic, *where, "--json"))
    assert (audit["preset"], audit["keys"], audit["misplaced_count"]) == ("java", len(placed), 0)

    sizes = ("--from", str(PARTITIONS), "--to", str(2 * PARTITIONS))
    growth = answered("keys-growth", cli("keys", "growth", *sizes, topic, *where, "--json"))
    assert growth["keys"] == len(placed)
    assert 0 < growth["moved"]["java"] < 1


CLIENTS = ("kafka-python", *(pytest.param(each, marks=pytest.mark.long) for each in ("java", "confluent")))


@pytest.mark.long  # long: churn once more, on three brokers; test_readme.py types it, and plays it on one
@pytest.mark.parametrize("client", CLIENTS)
def test_a_run_is_played_and_judged(client: str, kafka_cluster: Cluster, tmp_path: Path) -> None:
    where, out = ("--bootstrap", kafka_cluster.bootstrap), tmp_path / "run"
    play = ("test", "churn", "--client", client, "--assignor", "range", "--out", str(out), "--json")
    refused = cli(*play, *where)
    assert (refused.returncode, refused.stderr.splitlines()[-1].endswith("add --confirm to agree")) == (2, True)
    played = answered("test", cli(*play, *where, "--confirm"))
    assert played["value"] is True
    judged = answered("judge", cli("judge", str(out), "--json"))
    assert judged["laws"] == played["laws"]


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("client", ["java", "kafka-python", "confluent"])
def test_a_run_is_reported(
    client: str, kafka_cluster: Cluster, topic: str, placed: dict[str, int], tmp_path: Path
) -> None:
    where, out, tables = ("--bootstrap", kafka_cluster.bootstrap), tmp_path / "run", str(tmp_path / "tables")
    cli("test", "churn", "--client", client, "--assignor", "range", "--out", str(out), *where, "--confirm")
    read = ("--topics", topic, *where, "--json")
    run = answered("report-run", cli("report", "run", *read, "--out", tables, "--history", str(out / "history")))
    assert run["rows"]["records"] == len(placed)
    streamed = answered("report-stream", cli("report", "stream", *read, "--out", f"{tables}-by-batch"))
    assert [(each["topic"], each["records"]) for each in streamed["topics"]] == [(topic, len(placed))]
    page = answered("report-page", cli("report", "page", tables, "--json"))
    assert Path(page["out"]["page"]).read_text("utf-8").count("</svg>") >= 1


@pytest.mark.long
def test_a_cluster_to_play_with_and_its_demo(tmp_path: Path) -> None:
    """`up` prints how to reach its brokers; the demo plays there when it may; Ctrl-C ends it."""
    command = [sys.executable, "-u", "-m", "kafka_assignors", "up", "--nodes", "3", "--topic", "orders:6", "--json"]
    with running(*command, end=signal.SIGINT) as (process, lines):
        told = valid("up", json.loads(lines.readline()))
        bootstrap = told["bootstrap"]
        assert (told["nodes"], told["topics"], told["secured"]) == (3, {"orders": 6}, None)
        known = answered("doctor", cli("doctor", "-b", bootstrap, "--topic", "orders", "--json"))["checks"]
        assert "orders: 6 partitions" in [check["found"] for check in known]
        arguments = ("--bootstrap", bootstrap, "--confirm", "--out", str(tmp_path / "demo"), "--json")
        demo = answered("demo", cli("demo", *arguments))
        assert (demo["value"], {run["value"] for run in demo["groups"]}) == (True, {True})
        assert "</svg>" in Path(demo["page"]).read_text("utf-8")
    assert process.returncode == 130
    assert main(["explain", "R3"]) == 0
