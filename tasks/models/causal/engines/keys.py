"""Which key goes to which server. No setting says so: an experiment is shared, and with it the address of its server.

The user's environment does. OPENAI_API_KEY, and whatever else OpenAI's client reads from the environment, is for the
server of OPENAI_BASE_URL, or for OpenAI's where that is not set. VITALFEW_API_KEYS names the variable with the key
of another server: `models.example.org=EXAMPLE_KEY,127.0.0.1:8000=LOCAL_KEY`. Any other server gets none.
"""

import ipaddress
import os
import re
from typing import Any
from urllib.parse import urlsplit

from vitalfew.configs.loading import ConfigError

OWN_KEY = "OPENAI_API_KEY"
KEYS = "VITALFEW_API_KEYS"
PROVIDER = "https://api.openai.com/v1"
LONGEST_REASON = 500
"""Characters that are shown of what a server said."""
SHORT = 8
"""Characters from which on a key is hidden within words too."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_NAME = re.compile(r"(key|token|secret|password|passwd|credentials?)$|^PGPASS", re.I)
_PASSWORD = re.compile(r"(?<=://)[^\s/@]*:[^\s/@]+(?=@)")
"""User and password in an address."""
_PLAIN = re.compile(
    r"accept|accept-encoding|connection|content-(length|type)|host|transfer-encoding|user-agent|x-stainless-.+", re.I
)
"""Headers that hold no secret: what HTTP needs, and what OpenAI's client says of itself."""

Server = tuple[str, int]
"""A host's name, and its port."""


def variable_for(url: str) -> str:
    """Return the environment variable with the key of this server, or ''. Raises ConfigError."""
    return _variables().get(_server(url), "")


def key_for(url: str) -> str:
    """Return the key of this server, or ''. Raises ConfigError if it would travel unencrypted, or is missing where the
    user says that there is one."""
    variable = variable_for(url)
    key = os.environ.get(variable, "") if variable else ""
    if variable and variable != OWN_KEY and not key:
        raise ConfigError(
            f"{KEYS} names {variable} for {url}, but {variable} is not set: export it, or remove it from {KEYS}"
        )
    parts = urlsplit(url)
    if key and parts.scheme != "https" and not _is_this_machine(parts.hostname or ""):
        raise ConfigError(
            f"{url}: the key in {variable} would travel unencrypted. Use the server's https:// address, use a tunnel "
            f"(ssh -L), or unset {variable} if the server needs no key"
        )
    return key


def restrict(request: Any) -> None:
    """Make an HTTP request carry the key of the server that it goes to, and no other secret of the environment.

    Clients add more than the key (OPENAI_ORG_ID, OPENAI_CUSTOM_HEADERS): only the server of OPENAI_API_KEY gets that.
    """
    url = str(request.url)
    if _server(url) == _own_server():
        return
    for name in [name for name in request.headers if not _PLAIN.fullmatch(name)]:
        del request.headers[name]
    if key := key_for(url):
        request.headers["authorization"] = f"Bearer {key}"


def refusal(url: str) -> str:
    """Return the message for a server that refuses to answer without a (right) key, with the remedy."""
    if variable := variable_for(url):
        return f"{url} refuses the key in {variable} ({'set' if os.environ.get(variable) else 'not set'})"
    host, port = _server(url)
    server = (f"[{host}]" if ":" in host else host) + ("" if port == 443 else f":{port}")
    return (
        f"{url} asks for a key, but no key is configured for it ({OWN_KEY} goes only to {_own_server()[0]}). Put the "
        f"key into an environment variable and name that variable: export {KEYS}={server}=NAME"
    )


def blocks() -> dict[str, str]:
    """The environment variables with keys, and the names of the Prefect blocks that may hold them instead."""
    return {name: name.lower().replace("_", "-") for name in [OWN_KEY, *_variables().values()]}


def redacted(text: str, least: int = 1) -> str:
    """Return the text without the keys of at least so many characters."""
    for variable in blocks():
        if len(key := os.environ.get(variable, "")) >= least:
            # A key of a letter or two, as local servers are given, would be found within words.
            around = r"\w" if len(key) < SHORT else "(?!)"
            text = re.sub(rf"(?<!{around}){re.escape(key)}(?!{around})", "***", text)
    return text


def shown(text: str, most: int = LONGEST_REASON) -> str:
    """The beginning of what a server said, as one printable line without the keys: what is cut hides no part of one."""
    line = " ".join(redacted(text).split())
    return "".join(mark if mark.isprintable() else "\ufffd" for mark in line[:most])


def without_secrets(text: str) -> str:
    """Return what a command of the user's printed without keys, without the values of environment variables whose names
    end as that of a secret does (QDRANT_API_KEY), and without passwords in addresses."""
    for name, value in os.environ.items():
        if _SECRET_NAME.search(name) and len(value) >= SHORT:
            text = text.replace(value, "***")
    return _PASSWORD.sub("***", redacted(text))


def _variables() -> dict[Server, str]:
    variables = {_own_server(): OWN_KEY}
    for entry in filter(None, map(str.strip, os.environ.get(KEYS, "").split(","))):
        place, _, variable = entry.partition("=")
        server = _server(f"https://{place.strip()}")
        if not server[0] or not _VARIABLE.fullmatch(variable.strip()):  # which may be a key, and is not shown
            raise ConfigError(f"{KEYS} must be HOST=VARIABLE,HOST:PORT=VARIABLE, for example models.example.org=MY_KEY")
        variables[server] = variable.strip()
    return variables


def _own_server() -> Server:
    return _server(os.environ.get("OPENAI_BASE_URL") or PROVIDER)


def _server(url: str) -> Server:
    """Raises ConfigError for an invalid address."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError as error:
        raise ConfigError(f"the address of a server is not valid: {error}") from None


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
