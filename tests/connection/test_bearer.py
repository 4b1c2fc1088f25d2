"""The settings of OAUTHBEARER are read by each client's names, and given back under them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest

from kafka_assignors.connection import from_settings, read_connection
from kafka_assignors.connection.properties import parse
from kafka_assignors.errors import ConfigError

PASSWORD = """security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.username=alice
sasl.password=hunter2
"""
BEARER = """security.protocol=SASL_SSL
sasl.mechanism=OAUTHBEARER
"""
AT = "sasl.oauthbearer.token.endpoint.url=https://id.example/token\n"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
LIBRDKAFKA = f"""{AT}sasl.oauthbearer.method=oidc
sasl.oauthbearer.client.id=alice
sasl.oauthbearer.client.secret= hunter2
sasl.oauthbearer.scope=kafka
sasl.oauthbearer.extensions=tenant=7,pool=b
"""
JAVA = rf"""{AT}sasl.login.callback.handler.class={HANDLER}
sasl.login.connect.timeout.ms=10000
sasl.jaas.config={MODULE} required clientId="alice" clientSecret="hunter2" scope="kafka" \
    extension_tenant="7" extension_pool="b";
"""
JAVA_4_1 = LIBRDKAFKA.replace("bearer.client.", "bearer.client.credentials.client.").replace(".method=oidc", "")


Config = Callable[[str], Path]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Write a file of settings."""

    def write(text: str) -> Path:
        path = tmp_path / "client.properties"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("text", [LIBRDKAFKA, JAVA, JAVA_4_1.replace("sasl.oauthbearer\n", "")])
def test_a_token_endpoint_by_each_client_s_names(config: Config, text: str) -> None:
    read = read_connection("b:1", config(BEARER + text))

    grant = read.grant
    assert (grant.endpoint, grant.client_id) == ("https://id.example/token", "alice")
    assert (grant.client_secret, grant.scope) == ("hunter2", "kafka")
    assert grant.named_extensions == {"tenant": "7", "pool": "b"}
    assert read.secrets == ("hunter2",)
    assert "hunter2" not in repr(read)
    assert read.java() == {
        "bootstrap.servers": "b:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://id.example/token", "sasl.login.callback.handler.class": HANDLER,
        "sasl.jaas.config": f'{MODULE} required clientId="alice" clientSecret="hunter2" scope="kafka" '
        'extension_tenant="7" extension_pool="b";',
    }  # fmt: skip
    assert read.java_options() == ["-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://id.example/token"]
    assert {name: value for name, value in read.librdkafka().items() if "oauth" in name} == {
        "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
        "sasl.oauthbearer.client.id": "alice", "sasl.oauthbearer.client.secret": "hunter2",
        "sasl.oauthbearer.scope": "kafka", "sasl.oauthbearer.extensions": "tenant=7,pool=b",
    }  # fmt: skip
    confluent_kafka.Consumer({**read.librdkafka(), "group.id": "g", "log_level": 0}).close()
    assert from_settings(read.portable()) == read


@pytest.mark.parametrize("name", ["oauth_cb", "sasl_oauth_token_provider"])
def test_a_function_for_tokens_by_each_client_s_names(config: Config, name: str) -> None:
    text = f"{BEARER}{name}=my_cloud:token\nsasl.oauthbearer.config=region=x\n"
    read = read_connection("b:1", config(text))

    assert (read.grant.function, read.grant.argument) == ("my_cloud:token", "region=x")
    assert from_settings(read.portable()) == read
    assert from_settings({line.key: line.value for line in parse(read.properties())}) == read
    with pytest.raises(
        ConfigError, match=r"b:1: tokens come from my_cloud:token, a function in Python, which Java's c"
    ):
        read.java()
    with pytest.raises(ConfigError, match="which Java's clients and Spark can't call"):
        read.spark()


SECRET = "sasl.oauthbearer.client.id=alice\nsasl.oauthbearer.client.secret=hunter2\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", r"OAUTHBEARER needs a source of tokens: set sasl.oauthbearer.token.endpoint.url with .*oauth_cb=module:f"),
        (SECRET, r"OAUTHBEARER needs a source of tokens"),
        (AT, r"needs sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret; set them"),
        (AT + "sasl.oauthbearer.client.id=a\n", r"needs sasl.oauthbearer.client.secret; set it"),
        (AT.replace("https", "http") + SECRET, r"line 3: .*http://id.example/token would send the client's secret "),
        (AT.replace("https", "file") + SECRET, r"is not a URL of https; write https://HOST/PATH"),
        (AT.replace("id.ex", "u:hunter2@id.ex") + SECRET, r"has a user in it; remove the part before the @"),
        (AT + SECRET + "oauth_cb=a:b", r"oauth_cb=a:b and the setting of token endpoint both are a source of tokens"),
        ("oauth_cb=a.b", r"oauth_cb=a.b is not module:function, e.g. oauth_cb=my_cloud:token"),
        ("oauth_cb=a:b\nsasl.oauthbearer.method=oidc", r"method=oidc doesn't call oauth_cb; remove one of the two"),
        ("sasl.username=alice", r"line 3: sasl.username has no effect with sasl.mechanism=OAUTHBEARER"),
        (AT + SECRET + "sasl.oauthbearer.extensions=auth=x", r"has 'auth' without a value, or with a name that is not"),
        (AT + SECRET + f'sasl.jaas.config={MODULE} required clientId="b";', r"both give client id; remove one"),
        (f'sasl.jaas.config={MODULE} required unsecuredLoginStringClaim_sub="hunter2";', r"option unsecuredLoginStr"),
        (AT + SECRET + "sasl.oauthbearer.grant.type=urn:x", r"grant.type=urn:x is not supported, supported: client"),
        (AT + SECRET + "sasl.login.callback.handler.class=x.Y", r"class=x.Y is not supported, supported: org.apache.k"),
        (AT + SECRET + "sasl.oauthbearer.assertion.file=/x", r"assertion.file is not supported: clients here have a"),
        ("enable.sasl.oauthbearer.unsecure.jwt=true", r"tokens without a signature prove nothing"),
    ],
)  # fmt: skip
def test_a_source_of_tokens_that_cannot_work_is_refused_without_its_secret(
    config: Config, text: str, sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence) as refused:
        read_connection("b:1", config(BEARER + text))
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("name", ["sasl.oauthbearer.scope", "oauth_cb", "sasl.login.callback.handler.class"])
def test_a_setting_of_tokens_beside_a_password_is_refused(config: Config, name: str) -> None:
    sentence = "names a Java class" if name.endswith("class") else "no effect with sasl.mechanism=SCRAM-SHA-512; set"
    with pytest.raises(ConfigError, match=sentence):
        read_connection("b:1", config(f"{PASSWORD}{name}=x:y\n"))
    with pytest.raises(ConfigError, match=r"no effect with security.protocol=PLAINTEXT"):
        read_connection("b:1", config(f"{name}=x:y\n"))
