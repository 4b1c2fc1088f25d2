"""Read the settings of OAUTHBEARER, by each client's names: a token endpoint with credentials, or a function."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import ConfigError
from . import jaas, stores
from .oauth.endpoint import require_safe
from .properties import Given

_MECHANISM = "OAUTHBEARER"
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_HANDLERS = tuple(
    f"org.apache.kafka.common.security.oauthbearer.{place}OAuthBearerLoginCallbackHandler" for place in ("", "secured.")
)
_RETRIEVERS = tuple(
    f"org.apache.kafka.common.security.oauthbearer.{kind}JwtRetriever" for kind in ("Default", "ClientCredentials")
)
_ALLOWED = {
    "sasl.login.callback.handler.class": _HANDLERS,
    "sasl.oauthbearer.jwt.retriever.class": _RETRIEVERS,
    "sasl.oauthbearer.grant.type": ("client_credentials",),
    "sasl.oauthbearer.method": ("oidc", "default"),
}
"""Setting -> the values that mean what we do anyway; others name a way to get tokens that we don't have."""
_IN_JAAS = {"clientId": "client_id", "clientSecret": "client_secret", "scope": "scope", jaas.CA: "token_ca"}
_EXTENSION = "extension_"
_NEEDED = {"client_id": "sasl.oauthbearer.client.id", "client_secret": "sasl.oauthbearer.client.secret"}
_WAYS = (
    f"set {_ENDPOINT} with sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret=${{env:NAME}}, or "
    "oauth_cb=module:function with a function of yours that returns (token, expiry in seconds)"
)


def bearer_fields(given: Mapping[str, Given], fields: Mapping[str, str]) -> dict[str, str]:
    """Fields beside `fields`; ConfigError if the source of tokens is missing, ambiguous, incomplete or unsupported."""
    for name, values in _ALLOWED.items():
        if (setting := given.get(name)) is not None and setting.value.strip() not in values:
            raise ConfigError(
                f"{setting.where}: {name}={setting.value} is not supported, supported: {', '.join(values)}; for "
                "another way to get tokens write oauth_cb=module:function"
            )
    for name in ("sasl.username", "sasl.password"):
        if name in given:
            raise ConfigError(f"{given[name].where}: {name} has no effect with sasl.mechanism={_MECHANISM}; {_WAYS}")
    beside = {**_of_jaas(given, fields), **_trusted(given, fields)}
    every = {**fields, **beside}
    _check_extensions(every.get("extensions"))
    if "token_function" in every:
        _check_function(given, every)
        return beside
    if not every.get("token_endpoint"):
        raise ConfigError(f"sasl.mechanism={_MECHANISM} needs a source of tokens: {_WAYS}")
    if missing := [name for field, name in _NEEDED.items() if not every.get(field)]:
        raise ConfigError(
            f"{_ENDPOINT} needs {' and '.join(missing)}; set {'it' if len(missing) == 1 else 'them'} (Java: clientId "
            "and clientSecret in sasl.jaas.config)"
        )
    require_safe(every["token_endpoint"], given[_ENDPOINT].where)
    return beside


def _of_jaas(given: Mapping[str, Given], fields: Mapping[str, str]) -> dict[str, str]:
    """Fields of ``sasl.jaas.config``, in which Java has the credentials before Kafka 4.1."""
    config = given.get("sasl.jaas.config")
    if config is None:
        return {}
    login = jaas.read(config, _MECHANISM, 'clientId="…" clientSecret="…"')
    extensions = {name: value for name, value in login.options.items() if name.startswith(_EXTENSION)}
    if odd := sorted(set(login.options) - set(_IN_JAAS) - set(extensions) - {jaas.CA_TYPE}):
        raise ConfigError(f"{config.where}: sasl.jaas.config's option {odd[0]} is not supported; {_WAYS}")
    beside = {field: login.options[option] for option, field in _IN_JAAS.items() if login.options.get(option)}
    if "token_ca" in beside:
        beside["token_ca"] = stores.pem(beside["token_ca"], "CERTIFICATE", f"{config.where}: {jaas.CA}")
    if extensions:
        beside["extensions"] = ",".join(f"{name.removeprefix(_EXTENSION)}={text}" for name, text in extensions.items())
    if twice := sorted(field for field in beside if field in fields):
        raise ConfigError(
            f"{config.where}: sasl.jaas.config and sasl.oauthbearer.* both give {twice[0].replace('_', ' ')}; remove "
            "one"
        )
    return beside


def _trusted(given: Mapping[str, Given], fields: Mapping[str, str]) -> dict[str, str]:
    """The certificates that ``https.ca.location`` names."""
    if (setting := given.get("https.ca.location")) is None:
        return {}
    if "token_ca" in fields:
        raise ConfigError(
            f"{setting.where}: https.ca.location and https.ca.pem both name trusted certificates; remove one"
        )
    named = f"{setting.where}: https.ca.location"
    text = stores.read_text(setting.value.strip(), named)
    return {"token_ca": stores.pem(text, "CERTIFICATE", f"{named}={setting.value}")}


def _check_function(given: Mapping[str, Given], fields: Mapping[str, str]) -> None:
    if also := [name for name in ("token_endpoint", "client_id", "client_secret") if fields.get(name)]:
        raise ConfigError(
            f"oauth_cb={fields['token_function']} and the setting of {also[0].replace('_', ' ')} both are a source of "
            "tokens; remove one"
        )
    if (method := given.get("sasl.oauthbearer.method")) is not None and method.value.strip() == "oidc":
        raise ConfigError(f"{method.where}: sasl.oauthbearer.method=oidc doesn't call oauth_cb; remove one of the two")
    place, colon, attribute = fields["token_function"].partition(":")
    if not (place and colon and attribute):
        raise ConfigError(f"oauth_cb={fields['token_function']} is not module:function, e.g. oauth_cb=my_cloud:token")


def _check_extensions(extensions: str | None) -> None:
    for pair in filter(None, (extensions or "").split(",")):
        name, equals, _ = pair.partition("=")
        if not equals or not name.strip().isalpha() or name.strip() == "auth":
            raise ConfigError(
                f"sasl.oauthbearer.extensions has {name.strip()!r} without a value, or with a name that is not only "
                "letters; write name=value,name=value"
            )
