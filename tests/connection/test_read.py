"""A user's settings are read as Kafka reads them, and what can't work is refused with what would."""

from __future__ import annotations

import ssl
from pathlib import Path

import aiokafka.client
import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from kafka_assignors.connection import NAMES, NOT_OURS, Connection, from_settings, read_connection
from kafka_assignors.connection.settings import ALSO_READ
from kafka_assignors.errors import ConfigError
from tests.support.connection.authority import Authority

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="p;w \\"x\\"=";'
SCRAM = """
# as Kafka's documentation has it
bootstrap.servers=broker-1:9093,broker-2:9093
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="alice" \\
    password="wonder\\\\"land";
"""


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def config(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "client.properties"
        path.write_text(text, "utf-8")
        return path

    return write


def plain(**more: str) -> dict[str, str]:
    return {"bootstrap.servers": "b:1", **{name.replace("_", "."): value for name, value in more.items()}}


def test_the_scram_file_of_kafka_s_documentation_in_every_client_s_words(config):
    read = read_connection(config=config(SCRAM))
    assert (read.bootstrap, read.protocol, read.mechanism) == (
        "broker-1:9093,broker-2:9093",
        "SASL_SSL",
        "SCRAM-SHA-512",
    )
    assert (read.username, read.password) == ("alice", 'wonder"land')

    python = read.kafka_python()
    assert isinstance(python.pop("ssl_context"), ssl.SSLContext)
    assert python == {
        "bootstrap_servers": ["broker-1:9093", "broker-2:9093"], "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512", "sasl_plain_username": "alice", "sasl_plain_password": 'wonder"land',
    }  # fmt: skip
    assert read.librdkafka() == {
        "bootstrap.servers": "broker-1:9093,broker-2:9093", "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice", "sasl.password": 'wonder"land',
    }  # fmt: skip
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    java = {
        "bootstrap.servers": "broker-1:9093,broker-2:9093", "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{module} required username="alice" password="wonder\\"land";',
    }  # fmt: skip
    assert read.java() == java
    assert read.spark() == {f"kafka.{name}": value for name, value in java.items()}


@given(st.text(min_size=1), st.text(min_size=1), st.sampled_from(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]))
def test_every_user_survives_the_way_to_a_child_process(user, password, mechanism):
    """What `Connection.properties` writes reads back as the same connection."""
    told = Connection("b:1", "SASL_PLAINTEXT", mechanism, user, password, idle="9000", request_timeout="7")
    from kafka_assignors.connection import properties

    lines = properties.parse(told.properties())
    back = from_settings({line.key: line.value for line in lines})

    assert back == told
    assert told.properties().isascii()


@pytest.mark.parametrize("form", ["inline", "one line", "pem file", "pkcs12", "librdkafka"])
@pytest.mark.parametrize("key_password", [None, "k3y"])
def test_every_form_of_stores_becomes_the_same_pem(authority, tmp_path, config, form, key_password):
    if form == "pkcs12":
        (tmp_path / "trust").write_bytes(authority.truststore("tr"))
        (tmp_path / "own").write_bytes(authority.keystore(key_password or "own"))
        settings = {
            "ssl.truststore.location": tmp_path / "trust", "ssl.truststore.password": "tr",
            "ssl.truststore.type": "PKCS12", "ssl.keystore.location": tmp_path / "own",
            "ssl.keystore.password": key_password or "own",
        }  # fmt: skip
    else:
        ca, key, shown = authority.ca, authority.key(key_password), authority.certificate
        (tmp_path / "trust").write_text(ca)
        (tmp_path / "own").write_text(key + shown)
        (tmp_path / "key").write_text(key)
        if form == "one line":
            ca, key, shown = (each.replace("\n", " ") for each in (ca, key, shown))
        inline = {
            "ssl.truststore.type": "PEM", "ssl.truststore.certificates": ca, "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": shown, "ssl.keystore.key": key,
        }  # fmt: skip
        settings = {
            "inline": inline,
            "one line": inline,
            "pem file": {"ssl.truststore.location": tmp_path / "trust", "ssl.keystore.location": tmp_path / "own"},
            "librdkafka": {
                "ssl.ca.location": tmp_path / "trust", "ssl.certificate.location": tmp_path / "own",
                "ssl.key.location": tmp_path / "key",
            },
        }[form]  # fmt: skip
        if key_password:
            settings["ssl.key.password"] = key_password
    from kafka_assignors.connection import properties

    text = properties.render({n: str(v) for n, v in settings.items()})
    read = read_connection("b:1", config(f"security.protocol=SSL\n{text}"))

    assert (read.ca, read.certificate) == (authority.ca, authority.certificate)
    if form == "pkcs12":
        assert (read.key, read.key_password) == (authority.key(), None)
    else:
        assert read.key_password == key_password
        assert read.key.startswith("-----BEGIN ENCRYPTED" if key_password else "-----BEGIN PRIVATE")
    assert len(read.ssl_context().get_ca_certs()) == 1
    again = from_settings({line.key: line.value for line in properties.parse(read.properties())})
    assert again == read
    # librdkafka reads certificate and key when a client is made
    confluent_kafka.Producer({**read.librdkafka(), "log_level": 0})


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["security.protocl=SSL"], r"--set: unknown setting 'security.protocl'; did you mean security.protocol"),
        (["colour=blue"], r"--set: unknown setting 'colour'; Kafka clients have no such setting; remove it"),
        (["security.protocol"], r"--set 'security.protocol' has no value; write --set security.protocol=SASL_SSL"),
        (["security.protocol=TLS"], r"security.protocol=TLS is not known; known: PLAINTEXT, SSL, SASL_PLAINTEXT"),
        (["sasl.mechanism=PLAIN"], r"sasl.mechanism has no effect with security.protocol=PLAINTEXT; set security.prot"),
        (["ssl.ca.location=x"], r"ssl.ca.location has no effect with security.protocol=PLAINTEXT"),
        (["security.protocol=SASL_SSL"], r"sasl.mechanism is missing; supported: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=GSSAPI"], r"GSSAPI \(Kerberos\) is not supported: its ti"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=AWS_MSK_IAM"], r"the same listener takes OAUTHBEARER: set"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=NTLM"], r"NTLM is not supported; supported: PLAIN"),
        (["sasl.kerberos.service.name=kafka"], r"belongs to GSSAPI. GSSAPI \(Kerberos\) is not supported"),
        (["sasl.client.callback.handler.class=x.Y"], r"names a Java class, which Python can't run; a cloud's tokens c"),
        (["sasl.login.class=x.Y"], r"sasl.login.class is not supported: it names a Java class"),
        (["ssl.key.password=hunter2"], r"--set ssl.key.password=… is a secret on the command line, where every user"),
        (["sasl.password=hunter2"], r"\$\{env:NAME\}"),
        (["sasl.oauthbearer.client.secret=hunter2"], r"client.secret=… is a secret on the command line"),
        (["sasl.username=${env:NOBODY}"], r"refers to \$\{env:NOBODY\}, but the environment has no NOBODY; export"),
        (["client.id=${file:/x:y}"], r"refers to \$\{file:/x:y\}: only \$\{env:NAME\} is supported"),
        (["request.timeout.ms=soon"], r"request.timeout.ms=soon is not a number of milliseconds"),
        (["security.protocol=SSL", "ssl.ca.location=/none"], r"ssl.ca.location=/none can't be read \(No such file"),
        (["security.protocol=SSL", "ssl.truststore.type=BCFKS"], r"ssl.truststore.type=BCFKS is not supported; give"),
        (["security.protocol=SSL", "enable.ssl.certificate.verification=false"], r"would trust every broker"),
        (["security.protocol=SSL", "ssl.endpoint.identification.algorithm=x"], r"set https, or leave it empty"),
        (["config.providers=file"], r"config.providers=file: only env is supported"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_with_the_thing_and_the_fix(settings, sentence):
    with pytest.raises(ConfigError, match=sentence) as refused:
        read_connection("b:1", None, settings, {})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("jaas", "sentence"),
    [
        ("", r"does not begin with a login module"),
        ("Scram required username=alice", r"does not end with a semicolon"),
        ('Scram required username="alice" password="hunter2;', r"is a quote missing"),
        ('Scram required username="alice" "hunter2" x;', r"is not name=\"value\"; is a quote missing"),
        ('Scram required username="alice" password="hunter2";', r"needs org.apache.kafka.common.security.scram"),
        (
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice";',
            r"sasl.jaas.config has no password",
        ),
        (
            "org.apache.kafka.common.security.scram.ScramLoginModule required username=a password=hunter2 tokenauth=b;",
            r"option tokenauth is not supported",
        ),
    ],
)
def test_a_jaas_config_that_cannot_work_is_told_without_its_secret(config, jaas, sentence):
    text = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={jaas}\n"
    with pytest.raises(ConfigError, match=sentence) as refused:
        read_connection("b:1", config(text))
    assert "hunter2" not in str(refused.value)
    assert "client.properties, line 3: sasl.jaas.config" in str(refused.value)


def test_a_jks_store_is_refused_by_name_with_the_way_out(tmp_path):
    store = tmp_path / "trust.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    settings = ["security.protocol=SSL", f"ssl.truststore.location={store}"]
    with pytest.raises(ConfigError, match=r"trust\.jks is a JKS store, which Python's TLS can't read; .*PKCS12"):
        read_connection("b:1", None, settings)


def test_a_wrong_store_password_is_told_without_it(tmp_path, authority, config):
    (tmp_path / "trust.p12").write_bytes(authority.truststore("right"))
    text = f"security.protocol=SSL\nssl.truststore.location={tmp_path}/trust.p12\nssl.truststore.password=hunter2\n"
    with pytest.raises(ConfigError, match=r"trust.p12 can't be opened as PKCS12: its password is wrong") as refused:
        read_connection("b:1", config(text))
    assert "hunter2" not in str(refused.value)


def test_a_wrong_key_password_is_told(authority):
    with pytest.raises(ConfigError, match=r"certificate and key can't be used.*is ssl.key.password right"):
        from_settings(
            {
                **plain(security_protocol="ssl"), "ssl.key.pem": authority.key("right"), "ssl.key.password": "wrong",
                "ssl.certificate.pem": authority.certificate,
            }
        )  # fmt: skip


def test_options_beside_the_file_win_and_secrets_come_from_the_environment(config):
    text = SCRAM.replace('wonder\\\\"land', "${env:PW}").replace("SCRAM-SHA-512", "PLAIN")
    settings = ["sasl.mechanism=SCRAM-SHA-512", "config.providers=env"]
    read = read_connection("other:1", config(text), settings, {"PW": "of the environment"})
    assert (read.bootstrap, read.mechanism, read.password) == ("other:1", "SCRAM-SHA-512", "of the environment")


def test_settings_of_consuming_and_producing_are_noted_and_change_nothing(config):
    read = read_connection("b:1", config("group.id=billing\nacks=all\nssl.protocol=TLSv1.3\n"))
    assert read.ignored == ("group.id", "acks", "ssl.protocol")
    assert read == Connection("b:1")


def test_a_character_that_java_and_python_read_differently_is_refused(config):
    with pytest.raises(ConfigError, match=r"line 2: client.id has a character beyond ASCII.*\\uXXXX"):
        read_connection("b:1", config("# größer\nclient.id=größer\n"))
    assert read_connection("b:1", config("# größer\nclient.id=gr\\u00f6\\u00dfer\n")).ignored == ("client.id",)


def test_nobody_is_named():
    with pytest.raises(ConfigError, match=r"no broker is named; give --bootstrap host:port, or bootstrap.servers"):
        read_connection(None, None, ["security.protocol=PLAINTEXT"])


def test_no_secret_is_in_what_python_prints_of_a_connection(authority):
    told = Connection(
        "b:1", "SASL_SSL", "PLAIN", "alice", "hunter2", key=authority.key(), certificate=authority.certificate
    )
    assert set(told.secrets) == {"hunter2", authority.key()}
    for said in (repr(told), str(told), f"{told}"):
        assert not any(secret in said or repr(secret)[1:-1] in said for secret in told.secrets)


def test_every_name_is_one_that_its_client_knows():
    """The table against the clients that are installed: a name that none of a client's classes has would be lost."""
    for row in NAMES.values():
        for client in (KafkaConsumer, KafkaProducer, KafkaAdminClient):
            assert row.python is None or row.python in client.DEFAULT_CONFIG, (row, client)
    import inspect

    known = inspect.signature(aiokafka.client.AIOKafkaClient.__init__).parameters
    assert [r for r in NAMES.values() if r.aiokafka is not None and r.aiokafka not in known] == []


def test_the_tables_of_names_do_not_overlap():
    read = {n for row in NAMES.values() for n in (row.java, *row.librdkafka) if n} | set(ALSO_READ)
    assert not read & NOT_OURS


def test_the_settings_of_a_confluent_client_are_read_beside_what_is_not_about_the_connection():
    read = from_settings(
        {
            "metadata.broker.list": "b:1", "security.protocol": "sasl_plaintext", "sasl.mechanisms": "PLAIN",
            "sasl.username": "alice", "sasl.password": "pw", "group.id": "billing", "socket.timeout.ms": 5000,
            "error_cb": print,
        }
    )  # fmt: skip
    assert read == Connection("b:1", "SASL_PLAINTEXT", "PLAIN", "alice", "pw", request_timeout="5000")
    assert read.kafka_python()["request_timeout_ms"] == 5000
