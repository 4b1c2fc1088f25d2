"""Build a `Connection` from a user's settings: a file, options beside it, secrets from the environment.

The names are Java's or librdkafka's. An unknown name is rejected with the nearest known one. A known setting that is
not about the connection is listed in `Connection.ignored`.
"""

from __future__ import annotations

import difflib
import os
import re
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import ConfigError
from . import jaas, properties, stores
from .bearer import bearer_fields
from .profiles import chosen, profiles_file
from .properties import Given
from .settings import ALSO_READ, MECHANISMS, NAMES, NOT_OURS, OAUTHBEARER, PROTOCOLS, Connection

_REFERENCE = re.compile(r"\$\{([^}:]*):([^}]*)\}")
_ENV_PROVIDER = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
_MILLISECONDS = ("request_timeout", "reconnect_backoff", "reconnect_backoff_max", "idle")
_FIELD = {name: field for field, row in NAMES.items() for name in (row.java, *row.librdkafka) if name is not None}
_FIELD["sasl_oauth_token_provider"] = "token_function"  # the name in kafka-python and aiokafka
_SECRET = {name for name, secret in ALSO_READ.items() if secret} | {
    name for row in NAMES.values() if row.secret for name in (row.java, *row.librdkafka) if name is not None
}
_PEM = {"ca": "CERTIFICATE", "token_ca": "CERTIFICATE", "certificate": "CERTIFICATE", "key": "PRIVATE KEY"}
_REFUSED = {
    "sasl.client.callback.handler.class": (
        "it names a Java class, which Python can't run; a cloud's tokens come by sasl.mechanism=OAUTHBEARER and "
        "oauth_cb=module:function"
    ),
    "sasl.login.class": "it names a Java class, which Python can't run",
    "ssl.engine.factory.class": "it names a Java class, which Python can't run",
    "ssl.cipher.suites": "Java and OpenSSL use different cipher names; restrict ciphers at the broker",
    "security.providers": "it names Java classes, which Python can't load",
    "ssl.provider": "it names a Java class, which Python can't load",
    "enable.sasl.oauthbearer.unsecure.jwt": "tokens without a signature prove nothing; name a token endpoint",
    "sasl.oauthbearer.metadata.authentication.type": "give a function that asks the cloud: oauth_cb=module:function",
    "sasl.oauthbearer.assertion.file": "clients here have a secret; give sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.assertion.private.key.file": "clients here have a secret; give sasl.oauthbearer.client.secret",
    "bootstrap.controllers": "controllers have no records; name brokers in bootstrap.servers",
}
# Every client here supports only TLS 1.2 and 1.3, and these settings only tell Java how to do so.
_NEEDLESS = {
    "ssl.protocol", "ssl.enabled.protocols", "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm",
    "ssl.secure.random.implementation",
}  # fmt: skip
# How Java renews a token and waits for its endpoint, and what only a broker checks.
_OF_LOGIN = (
    "sasl.login.refresh.", "sasl.login.retry.", "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms",
    "sasl.oauthbearer.jwks.", "sasl.oauthbearer.expected.", "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name",
)  # fmt: skip
_GSSAPI = (
    "GSSAPI (Kerberos) is not supported: its tickets come from the system's Kerberos libraries, and confluent-kafka's "
    "wheels are built without them; ask for a listener with SCRAM or OAUTHBEARER"
)
_AWS_MSK_IAM = (
    "AWS_MSK_IAM is a Java class's; the same listener takes OAUTHBEARER: set sasl.mechanism=OAUTHBEARER, and "
    "oauth_cb=module:function with a function that returns (token, expiry in seconds)"
)
_UNSUPPORTED = {"GSSAPI": _GSSAPI, "AWS_MSK_IAM": _AWS_MSK_IAM}


def read_connection(
    bootstrap: str | None = None,
    config: Path | None = None,
    settings: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    profile: str | None = None,
    otherwise: str | None = None,
) -> Connection:
    """Combine a command's ``--bootstrap``, ``--config``, ``--profile`` and ``--set``. If several give the same setting,
    the order of precedence is ``--bootstrap``, ``--set``, ``--config`` with its profile.

    Args:
        bootstrap: ``host:port``, several with commas.
        config: A properties file.
        settings: ``key=value`` each. A secret must be a reference here, because command lines are public.
        environment: Variables for ``${env:NAME}``; by default this process's.
        profile: Section of `config`, which is then `profiles.profiles_file` by default.
        otherwise: The brokers, as `bootstrap`, if none of these names them.

    Raises:
        ConfigError: A setting is invalid, or there is no such profile. The message has its name, its value unless it is
            secret, and a valid value.
    """
    environment = os.environ if environment is None else environment
    if config is not None:
        given = _of_file(config, f"--config {config}", profile)
    elif profile is not None:
        file = profiles_file(environment)
        given = _of_file(file, f"--profile {profile}: {file}", profile)
    else:
        given = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        name = name.strip()
        if not equals or not name:
            raise ConfigError(f"--set {name!r} has no value; write --set security.protocol=SASL_SSL")
        if name in _SECRET and not _REFERENCE.fullmatch(value) and not (name == "sasl.jaas.config" and "${" in value):
            raise ConfigError(
                f"--set {name}=… is a secret on the command line, where every user of this machine can read it; write "
                f"--set '{name}=${{env:NAME}}' with the secret in the environment, or put it into the --config file"
            )
        given[name] = Given(value, "--set")
    if bootstrap is not None:
        given = {n: g for n, g in given.items() if _FIELD.get(n) != "bootstrap"}
        given["bootstrap.servers"] = Given(bootstrap, "--bootstrap")
    elif otherwise is not None and not any(_FIELD.get(name) == "bootstrap" for name in given):
        given["bootstrap.servers"] = Given(otherwise, "KAFKA_BOOTSTRAP")
    return _connection(given, environment)


def from_settings(settings: Mapping[str, object], where: str = "configuration") -> Connection:
    """The connection in a client's configuration, by librdkafka's or Java's names; other settings are ignored.

    `where` is the configuration's name for errors.

    Raises:
        ConfigError: A setting is invalid.
    """
    ours = {n: Given(_text(v), where) for n, v in settings.items() if concerns_connection(n) and v is not None}
    return _connection(ours, {})


def concerns_connection(name: str) -> bool:
    """Whether a setting of this name is about the connection, even one that we reject."""
    return name in _FIELD or name in ALSO_READ or name in _REFUSED or name.startswith(("sasl.", "ssl."))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def file_lines(path: Path, where: str | None = None, profile: str | None = None) -> list[properties.Line]:
    """The settings in a client's properties file, in its order. It is read once: it may be a pipe.

    `where` is its name for errors, by default `path`. `profile` is the section wanted; None: the file has none.

    Raises:
        ConfigError: It can't be read, or Java and Python would read it differently.
    """
    where = str(path) if where is None else where
    try:
        data = path.read_bytes()
    except OSError as error:
        wanted = "name a client.properties" if profile is None else f"write a section [{profile}] there"
        raise ConfigError(f"{where} can't be read ({error.strerror}); {wanted}") from None
    try:
        lines = properties.parse(data.decode("latin-1"))
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None
    lines = chosen(lines, profile, str(path))
    for line in lines:
        if not f"{line.key}{line.value}".isascii() and not data.isascii():
            # Java decodes ISO-8859-1, most editors write UTF-8; only ASCII escapes mean the same to both
            _require_ascii(data, line, where)
    return lines


def _of_file(path: Path, where: str, profile: str | None = None) -> dict[str, Given]:
    lines = file_lines(path, where, profile)
    return {line.key: Given(line.value, f"{where}, line {line.number}") for line in lines}


def _require_ascii(data: bytes, line: properties.Line, where: str) -> None:
    begun = re.split(rb"\r\n|\r|\n", data)[line.number - 1]
    if not begun.isascii():
        raise ConfigError(
            f"{where}, line {line.number}: {line.key.encode('ascii', 'replace').decode()} has a character "
            "beyond ASCII, which Java and Python read differently; write it as \\uXXXX"
        )


def _connection(given: Mapping[str, Given], environment: Mapping[str, str]) -> Connection:
    given = {
        name: _resolved(name, setting, environment) for name, setting in given.items() if not _provider(name, setting)
    }
    ignored = []
    for name, setting in given.items():
        if name in NOT_OURS or name in _NEEDLESS or name.startswith(_OF_LOGIN):
            ignored.append(name)
        elif name in _REFUSED:
            raise ConfigError(f"{setting.where}: {name} is not supported: {_REFUSED[name]}")
        elif name not in _FIELD and name not in ALSO_READ:
            raise ConfigError(f"{setting.where}: {_unknown(name)}")
    fields = _fields(given)
    if not fields.get("bootstrap"):
        raise ConfigError(
            "no broker is named; give --bootstrap host:port, or bootstrap.servers in --config or --profile"
        )
    fields |= _security(given, fields)
    return _made(fields, tuple(ignored))


def _made(fields: Mapping[str, str], ignored: tuple[str, ...] = ()) -> Connection:
    return Connection(
        **{name: value for name, value in fields.items() if value or name == "bootstrap"}, ignored=ignored
    )


def _unknown(name: str) -> str:
    if name.startswith("sasl.kerberos."):
        return f"{name} belongs to GSSAPI. {_GSSAPI}"
    near = difflib.get_close_matches(name, [*_FIELD, *ALSO_READ, *NOT_OURS, *_NEEDLESS], 2, 0.7)
    hint = f"did you mean {' or '.join(near)}?" if near else "Kafka clients have no such setting; remove it"
    return f"unknown setting {name!r}; {hint}"


def _provider(name: str, given: Given) -> bool:
    """Whether the setting declares ``${env:…}`` to Java, which is not needed here."""
    if name == "config.providers":
        if given.value.strip() != "env":
            raise ConfigError(f"{given.where}: config.providers={given.value}: only env is supported, as ${{env:NAME}}")
        return True
    if name.startswith("config.providers.env."):
        if name.endswith(".class") and given.value.strip() != _ENV_PROVIDER:
            raise ConfigError(f"{given.where}: {name}={given.value} is not known; known: {_ENV_PROVIDER}")
        return True
    return False


def _resolved(name: str, given: Given, environment: Mapping[str, str]) -> Given:
    def meant(match: re.Match[str]) -> str:
        kind, variable = match.groups()
        if kind != "env":
            raise ConfigError(f"{given.where}: {name} refers to {match[0]}: only ${{env:NAME}} is supported")
        if variable not in environment:
            raise ConfigError(
                f"{given.where}: {name} refers to {match[0]}, but the environment has no {variable}; export {variable}"
            )
        return environment[variable]

    return Given(_REFERENCE.sub(meant, given.value), given.where)


def _fields(given: Mapping[str, Given]) -> dict[str, str]:
    """Field -> value, for settings that map to one field each."""
    fields: dict[str, str] = {}
    names: dict[str, str] = {}
    for name, setting in given.items():
        field = _FIELD.get(name)
        if field is None or field == "hostname_check":
            continue
        value = setting.value if field in ("password", "key_password", "client_secret") else setting.value.strip()
        if field in fields and fields[field] != value:
            raise ConfigError(f"{setting.where}: {name} and {names[field]} set the same property; remove one")
        if field in _MILLISECONDS and not value.isdecimal():
            raise ConfigError(f"{setting.where}: {name}={value} is not a number of milliseconds")
        fields[field], names[field] = value, name
    for field in ("protocol", "mechanism"):
        if field in fields:
            fields[field] = fields[field].upper()
    for field, kind in _PEM.items():
        if field in fields:
            fields[field] = stores.pem(fields[field], kind, f"{given[names[field]].where}: {names[field]}")
    return fields


def _security(given: Mapping[str, Given], fields: Mapping[str, str]) -> dict[str, str]:
    """Fields that depend on several settings: the user, the trusted certificates, the client's certificate."""
    protocol = fields.get("protocol", "PLAINTEXT")
    if protocol not in PROTOCOLS:
        where = given["security.protocol"].where
        raise ConfigError(f"{where}: security.protocol={protocol} is not known; known: {', '.join(PROTOCOLS)}")
    for name, setting in given.items():
        prefix = "sasl" if _FIELD.get(name) == "token_function" else name.partition(".")[0]
        if (
            name in _NEEDLESS
            or name.startswith(_OF_LOGIN)
            or (name == "ssl.endpoint.identification.algorithm" and not setting.value)
        ):
            continue  # the empty one asks for nothing; Kafka's system tests write it into every file
        if (prefix == "sasl" and "SASL" not in protocol) or (prefix == "ssl" and not protocol.endswith("SSL")):
            raise ConfigError(
                f"{setting.where}: {name} has no effect with security.protocol={protocol}; "
                f"set security.protocol={'SASL_SSL' if prefix == 'sasl' else 'SSL or SASL_SSL'}, or remove {name}"
            )
    security_fields: dict[str, str] = {}
    if "SASL" in protocol:
        security_fields |= _user(given, fields)
    if protocol.endswith("SSL"):
        security_fields |= _trust(given, fields) | _shown(given, fields) | _hostname_check(given)
        _require_readable(_made({**fields, **security_fields}))
    return security_fields


def _user(given: Mapping[str, Given], fields: Mapping[str, str]) -> dict[str, str]:
    mechanism = fields.get("mechanism")
    if mechanism in _UNSUPPORTED:
        raise ConfigError(f"sasl.mechanism={mechanism}: {_UNSUPPORTED[mechanism]}")
    if mechanism not in MECHANISMS:
        problem = "is missing" if mechanism is None else f"{mechanism} is not supported"
        raise ConfigError(
            f"security.protocol={fields['protocol']}: sasl.mechanism {problem}; supported: {', '.join(MECHANISMS)}"
        )
    if mechanism == OAUTHBEARER:
        return bearer_fields(given, fields)
    for name, setting in given.items():
        if name == "sasl.login.callback.handler.class":
            raise ConfigError(
                f"{setting.where}: {name} is not supported: it names a Java class, which Python can't run"
            )
        if name.startswith(("sasl.oauthbearer.", "https.")) or _FIELD.get(name) == "token_function":
            raise ConfigError(
                f"{setting.where}: {name} has no effect with sasl.mechanism={mechanism}; set "
                f"sasl.mechanism=OAUTHBEARER, or remove {name}"
            )
    config = given.get("sasl.jaas.config")
    if config is None:
        for field in ("username", "password"):
            if not fields.get(field):
                raise ConfigError(
                    f"sasl.mechanism={mechanism} needs a user: write sasl.jaas.config={jaas.MODULES[mechanism]} "
                    'required username="…" password="${env:NAME}";'
                )
        return {}
    if "username" in fields or "password" in fields:
        raise ConfigError(
            f"{config.where}: sasl.jaas.config and sasl.username, sasl.password both give credentials; remove one"
        )
    login = jaas.read(config, mechanism, 'username="…" password="…"')
    if missing := [option for option in ("username", "password") if not login.options.get(option)]:
        raise ConfigError(f"{config.where}: sasl.jaas.config has no {' and no '.join(missing)}")
    if odd := sorted(set(login.options) - {"username", "password"}):
        raise ConfigError(f"{config.where}: sasl.jaas.config's option {odd[0]} is not supported")
    return {option: login.options[option] for option in ("username", "password")}


def _trust(given: Mapping[str, Given], fields: Mapping[str, str]) -> dict[str, str]:
    ways = [n for n in ("ssl.truststore.location", "ssl.ca.location") if n in given]
    ways += [name for name in ("ssl.truststore.certificates", "ssl.ca.pem") if name in given]
    if len(ways) > 1:
        raise ConfigError(f"{given[ways[1]].where}: {ways[0]} and {ways[1]} both name trusted certificates; remove one")
    _check_type(given, "truststore")
    if not ways or "ca" in fields:
        return {}
    path, where = given[ways[0]].value.strip(), f"{given[ways[0]].where}: {ways[0]}"
    password = given.get("ssl.truststore.password")
    return {"ca": stores.trusted(path, None if password is None else password.value, where)}


def _shown(given: Mapping[str, Given], fields: Mapping[str, str]) -> dict[str, str]:
    _check_type(given, "keystore")
    identity: dict[str, str] = {}
    if (store := given.get("ssl.keystore.location")) is not None:
        password = given.get("ssl.keystore.password")
        own = stores.identity(
            store.value.strip(),
            None if password is None else password.value,
            fields.get("key_password"),
            f"{store.where}: ssl.keystore.location",
        )
        identity = {"certificate": own.certificate, "key": own.key, "key_password": own.key_password or ""}
    for field, name, kind in (
        ("certificate", "ssl.certificate.location", "CERTIFICATE"),
        ("key", "ssl.key.location", "PRIVATE KEY"),
    ):
        if (setting := given.get(name)) is not None:
            named = f"{setting.where}: {name}"
            identity[field] = stores.pem(
                stores.read_text(setting.value.strip(), named), kind, f"{named}={setting.value}"
            )
    both = {**fields, **identity}
    if ("certificate" in both) != ("key" in both):
        lacks = "private key" if "certificate" in both else "certificate"
        raise ConfigError(
            f"the client's {lacks} is missing: certificate and key go together (ssl.keystore.certificate.chain and "
            "ssl.keystore.key, or ssl.keystore.location)"
        )
    return identity


def _check_type(given: Mapping[str, Given], store: str) -> None:
    """Reject an unsupported type of store; the contents decide which type it is."""
    setting = given.get(f"ssl.{store}.type")
    if setting is not None and setting.value.strip().upper() not in ("PEM", "PKCS12", "JKS"):
        raise ConfigError(
            f"{setting.where}: ssl.{store}.type={setting.value} is not supported; give a PEM or PKCS12 store"
        )


def _hostname_check(given: Mapping[str, Given]) -> dict[str, str]:
    verify = given.get("enable.ssl.certificate.verification")
    if verify is not None and verify.value.strip().lower() != "true":
        raise ConfigError(
            f"{verify.where}: enable.ssl.certificate.verification={verify.value} would trust every broker, which Java "
            "does not support; name the authority in ssl.truststore.location"
        )
    setting = given.get("ssl.endpoint.identification.algorithm")
    if setting is None:
        return {}
    algorithm = setting.value.strip().lower()
    if algorithm not in ("https", "", "none"):
        raise ConfigError(
            f"{setting.where}: ssl.endpoint.identification.algorithm={setting.value} is not known; set https, or leave "
            "it empty to skip the host name check"
        )
    return {"hostname_check": algorithm or "none"}


def _require_readable(connection: Connection) -> None:
    """Reject certificates and keys that OpenSSL cannot read, before any client uses them."""
    try:
        connection.ssl_context()
    except ssl.SSLError as error:
        what = "the client's certificate and key" if connection.key else "the trusted certificates"
        password = "; is ssl.key.password right?" if connection.key and "ENCRYPTED" in connection.key else ""
        raise ConfigError(f"{what} can't be used: {error.reason or error}{password}") from None
