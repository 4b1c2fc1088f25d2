"""Get a token from an identity server: OIDC client credentials over https, each failure as one sentence with the fix.

Source: RFC 6749, sections 4.4 and 5; the credentials go as Java's ``ClientCredentialsJwtRetriever`` sends them.
"""

from __future__ import annotations

import base64
import http.client
import ipaddress
import json
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import SplitResult, urlencode, urlsplit

from ...errors import AccessRefused, ClusterError, ConfigError
from .grant import Grant
from .token import Token, token

URL = "sasl.oauthbearer.token.endpoint.url"
_CREDENTIALS = "sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret"
_TIMEOUT_S = 10.0
_LONGEST = 1_000_000  # bytes of a response
_CODE = re.compile(r"[a-z_]{1,40}")  # an OAuth error code: anything else in an answer might be a secret


def require_safe(url: str, where: str) -> None:
    """Check an endpoint's URL before any secret is sent to it. `where` is the setting's origin, for the message.

    Raises:
        ConfigError: It is no URL of https, or of http on this machine; or it has a user and a password.
    """
    shown = f"{where}: {URL}={_shown(url)}"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ConfigError(f"{shown} is not a URL; write https://HOST/PATH") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"{shown} is not a URL of https; write https://HOST/PATH")
    if "@" in parts.netloc:
        raise ConfigError(f"{shown} has a user in it; remove the part before the @, and set {_CREDENTIALS}")
    if parts.scheme == "http" and not _loopback(parts):
        raise ConfigError(
            f"{shown} would send the client's secret unencrypted; write https:// (http is only for this machine)"
        )


def request_token(grant: Grant) -> Token:
    """Ask the endpoint for a token.

    Raises:
        AccessRefused: It refuses the client or the scope, or answers something that is no token.
        ClusterError: It doesn't answer, or fails itself.
        ConfigError: Its URL is not safe.
    """
    url = grant.endpoint or ""
    require_safe(url, "token endpoint")
    shown = _shown(url)
    credentials = base64.b64encode(f"{grant.client_id}:{grant.client_secret}".encode()).decode()
    form = {"grant_type": "client_credentials", **({} if grant.scope is None else {"scope": grant.scope})}
    headers = {"Accept": "application/json", "Authorization": f"Basic {credentials}"}
    asked = urllib.request.Request(url, urlencode(form).encode(), headers)
    now = time.time()
    try:
        with _opener(urlsplit(url), grant.ca).open(asked, timeout=_TIMEOUT_S) as answer:
            data = _body(answer, time.monotonic() + _TIMEOUT_S)
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(grant, shown, error.code, _error_code(error)) from None
    except (OSError, http.client.HTTPException) as error:
        raise _unreached(shown, urlsplit(url).hostname or "", error) from None
    fields = _fields(data)
    if "access_token" not in fields:
        raise AccessRefused(
            f"{shown} answered without an access_token; is {URL} the token endpoint? The identity server's "
            "/.well-known/openid-configuration names it as token_endpoint"
        )
    return token(fields["access_token"], fields.get("expires_in"), now, shown)


def _shown(url: str) -> str:
    """A URL without what may be secret in it."""
    return re.sub(r"//[^/@]*@", "//", url.partition("?")[0].partition("#")[0])


def _loopback(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _opener(parts: SplitResult, ca: str | None) -> urllib.request.OpenerDirector:
    """An opener that follows no redirection: the next server would get the client's secret."""
    by_proxy = urllib.request.ProxyHandler({} if _loopback(parts) else None)
    by_tls = urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=ca))
    return urllib.request.build_opener(by_proxy, by_tls, _Stay)


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def _body(answer: http.client.HTTPResponse, deadline: float) -> bytes:
    """Its first `_LONGEST` bytes. A server that sends a byte now and then would keep each single read within its limit.

    Raises:
        TimeoutError: It is not over by the deadline, in seconds of `time.monotonic`.
    """
    data = b""
    while len(data) < _LONGEST and (block := answer.read1(_LONGEST - len(data))):
        data += block
        if time.monotonic() > deadline:
            raise TimeoutError
    return data


def _fields(data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _error_code(error: urllib.error.HTTPError) -> str | None:
    """The OAuth error code in the body, such as ``invalid_client``."""
    try:
        code = _fields(error.read(_LONGEST)).get("error")
    except (OSError, http.client.HTTPException):
        return None
    return code if isinstance(code, str) and _CODE.fullmatch(code) else None


def _refusal(grant: Grant, shown: str, status: int, code: str | None) -> AccessRefused | ClusterError:
    answer = f"{status} {code}" if code else str(status)
    if status >= 500 or status == 429:
        return ClusterError(f"{shown} fails ({answer}); try again later, or ask who runs this identity server")
    if 300 <= status < 400:
        return AccessRefused(
            f"{shown} redirects ({answer}), which would hand the secret on; set {URL} to where it leads"
        )
    if code == "invalid_scope":
        return AccessRefused(f"{shown} refuses scope {grant.scope!r} ({answer}); correct sasl.oauthbearer.scope")
    if status == 401 or code in ("invalid_client", "unauthorized_client"):
        return AccessRefused(f"{shown} refuses client {grant.client_id!r} ({answer}); correct {_CREDENTIALS}")
    return AccessRefused(f"{shown} refuses the request for a token ({answer}); is {URL} its token endpoint?")


def _unreached(shown: str, host: str, error: Exception) -> AccessRefused | ClusterError:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, socket.gaierror):
        return ClusterError(f"{shown}: host {host!r} is unknown ({reason.strerror}); correct {URL}")
    if isinstance(reason, ssl.SSLCertVerificationError):
        return AccessRefused(
            f"{shown}: its certificate is not trusted ({reason.verify_message}); name the authority's certificate in "
            "https.ca.location"
        )
    if isinstance(reason, ssl.SSLError):
        return AccessRefused(f"{shown} doesn't speak TLS ({reason.reason or reason}); is the port in {URL} right?")
    if isinstance(reason, TimeoutError):
        return ClusterError(f"{shown} didn't answer within {_TIMEOUT_S:g} s; check {URL}, and a firewall between")
    return ClusterError(f"{shown} doesn't answer ({reason}); check {URL}, and whether the identity server runs")
