"""Java's own classes read the same out of a file as we do, and know every name of the table."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_assignors.connection import NAMES, NOT_OURS, Connection, jaas, properties
from kafka_assignors.integration.broker.java import LiveJava
from tests.support.examples import examples

TEXT = st.text(st.sampled_from("ab =:#!\\\n\r\t\f\"u0041é€𝄞;'"), max_size=30)
pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def java():
    with LiveJava() as running:
        yield running


def in_java(java: LiveJava, text: str) -> dict[str, str] | None:
    read = java.classes.java.util.Properties()
    from py4j.protocol import Py4JJavaError

    try:
        read.load(java.classes.java.io.StringReader(text))
    except Py4JJavaError:
        return None
    return told(dict(read).items())


def told(settings: Iterable[tuple[str, ...]]) -> dict[str, str]:
    """Without the nothing that Java makes of a file whose last line is a backslash, or doesn't, as that line ends."""
    return {key: value for key, value, *_ in settings if key or value}


@pytest.mark.source("java.util.Properties.load")
def test_a_file_says_the_same_to_java(java):
    @settings(max_examples=examples(300), deadline=None)
    @given(TEXT)
    def same(text: str) -> None:
        try:
            ours = told({line.key: line.value for line in properties.parse(text)}.items())
        except ValueError:
            ours = None
        assert ours == in_java(java, text), text

    same()


def test_java_reads_back_what_we_write(java):
    @settings(max_examples=examples(100), deadline=None)
    @given(st.dictionaries(TEXT, TEXT, max_size=3))
    def same(said: dict[str, str]) -> None:
        text = properties.render(said)
        assert in_java(java, text) == told(said.items()) == told(properties.parse(text))

    same()


@pytest.mark.source("apache/kafka JaasConfig, JaasContext.loadClientContext")
def test_java_logs_in_as_the_user_that_we_write(java):
    password = java.classes.org.apache.kafka.common.config.types.Password
    context = java.classes.org.apache.kafka.common.security.JaasContext

    @settings(max_examples=examples(100), deadline=None)
    @given(st.text(st.sampled_from("ab\"'\\;=# \t/*é1€"), min_size=1, max_size=12))
    def same(secret: str) -> None:
        text = Connection("b:1", "SASL_SSL", "PLAIN", "alice", secret).java()["sasl.jaas.config"]
        (entry,) = context.loadClientContext({"sasl.jaas.config": password(text)}).configurationEntries()
        assert dict(entry.getOptions()) == {"username": "alice", "password": secret} == jaas.parse(text).options

    same()


def test_every_setting_of_java_is_in_one_of_the_tables(java):
    clients = java.classes.org.apache.kafka.clients
    kinds = (clients.consumer.ConsumerConfig, clients.producer.ProducerConfig, clients.admin.AdminClientConfig)
    theirs = {str(name) for kind in kinds for name in kind.configNames() if not name.startswith("internal.")}
    ours = {row.java for row in NAMES.values() if row.java is not None}
    assert ours <= theirs
    security = {
        name for name in theirs if name.startswith(("sasl.", "ssl.", "security.")) or name.startswith("bootstrap.")
    }
    assert theirs - ours - security - {"config.providers"} == NOT_OURS
