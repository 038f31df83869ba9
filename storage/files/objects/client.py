"""The client of a bucket (obstore), made once per process, with its errors in a user's words.

Credentials, region and endpoint come from the environment, under the names that the tools of the clouds use. No
message, path or record has them.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import obstore
from obstore import exceptions
from obstore.store import AzureStore, GCSStore, S3Store

from vitalfew.configs.paths import BucketPath
from vitalfew.storage.files.directory import BucketError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ENVIRONMENT = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL)",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_OBJECT = re.compile(r"https?://(?!169\.254\.)\S+")
"""The address of a request, except the address at which a cloud's machines ask for credentials."""
SECRET_NAMES = ("AWS_", "AZURE_", "GOOGLE_")
"""The beginnings of the variables by which a bucket is reached."""
_PATIENCE = {"max_retries": 12, "retry_timeout": timedelta(minutes=3)}
_HALF = "request or response body error"
TRIES = 5
_TIMES = {"connect_timeout": timedelta(seconds=10), "timeout": timedelta(minutes=10)}
_READING = {"read_timeout": timedelta(seconds=60)}


def key(path: Path) -> str:
    """The name of an object in its bucket."""
    return "/".join(path.parts[2:])


def client(path: Path, seconds: float | None = None) -> Any:
    """The client of a place's bucket. `seconds`: it gives up after so many, for a request that would be too late.
    Raises BucketError where the bucket is not there or does not let anybody in."""
    return _client(path.parts[0].rstrip(":"), path.parts[1], seconds)


@cache
def _client(scheme: str, bucket: str, seconds: float | None) -> Any:
    if seconds is not None:
        return _connect(scheme, bucket, {"max_retries": 5, "retry_timeout": timedelta(seconds=seconds)})
    place = BucketPath(f"{scheme}:", bucket)
    with explained(place):  # it may not be there at all
        impatient = _connect(scheme, bucket, {"max_retries": 3, "retry_timeout": timedelta(seconds=20)})
    with suppress(FileNotFoundError):
        fetched(place / "vitalfew-is-here", impatient)
    return _connect(scheme, bucket, _PATIENCE)


def _connect(scheme: str, bucket: str, patience: dict[str, Any]) -> Any:
    kind: Any = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}[scheme]
    options: dict[str, Any] = {**_TIMES, **_READING}
    allowed = os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true"  # which the library reads without options alone
    if scheme == "s3" and (_endpoint() in LOOPBACK or allowed):
        options["allow_http"] = True
    return kind(bucket, client_options=options, retry_config=patience)


def _endpoint() -> str | None:
    """The host of AWS_ENDPOINT_URL. Raises BucketError where it is not an address: the library panics then."""
    given = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if not given:
        return None
    address = urlsplit(given)
    if address.scheme not in ("http", "https") or not address.hostname or address.username:
        raise BucketError("AWS_ENDPOINT_URL must be the address of a server: https://HOST or https://HOST:PORT")
    return address.hostname


def fetched(path: Path, by: Any = None) -> tuple[Any, bytes]:
    """Fetch an object's description and its bytes. Raises FileNotFoundError, BucketError.

    The library asks again where half an object came, but not where half an error came: then this does.
    """
    for _ in range(TRIES):
        with explained(path):
            try:
                got = obstore.get(by or client(path), key(path))
                return got.meta, bytes(got.bytes())
            except exceptions.GenericError as error:
                if _HALF not in str(error):
                    raise
    raise BucketError(_unreached(path, _HALF))


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Within the block, the client's errors are FileNotFoundError, FileExistsError or BucketError, in words."""
    try:
        yield
    except FileNotFoundError as error:
        if _is_of_bucket(str(error)):
            raise BucketError(_missing(path)) from None
        raise FileNotFoundError(f"{path} does not exist") from None
    except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
        raise FileExistsError(f"{path} was written by another process") from None
    except exceptions.BaseError as error:
        raise BucketError(_meaning(path, error)) from None


def _is_of_bucket(text: str) -> bool:
    """Return true if the bucket itself is missing."""
    return "NoSuchBucket" in text or "ContainerNotFound" in text


def _missing(path: Path) -> str:
    return f"{path}: there is no bucket {path.parts[1]}. Make it, or give another --store"


def _meaning(path: Path, error: Exception) -> str:
    """Say what went wrong, and the remedy. obstore's text has a request's address, and maybe a signature in it."""
    text, scheme = _OBJECT.sub("", str(error)), path.parts[0].rstrip(":")
    code = (re.search(r"<Code>(\w+)</Code>", text) or [None, ""])[1]
    variables = _ENVIRONMENT[scheme]
    if _is_of_bucket(text):
        return _missing(path)
    if code == "RequestTimeTooSkewed":
        return f"{path}: the clock of this machine is wrong, so the server rejects its requests: set the clock (NTP)"
    if code in ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"):
        return f"{path}: these credentials are not valid ({code}): set {variables} in the environment"
    if isinstance(error, exceptions.PermissionDeniedError) or code == "AccessDenied":
        return (
            f"{path}: these credentials do not allow this ({code or 'status 403'}). A store needs permission to list, "
            "read, write and delete (on S3 ListBucket, GetObject, PutObject, DeleteObject); to read it, the first two "
            "are enough"
        )
    if isinstance(error, exceptions.UnauthenticatedError) or re.search(r"credential|169\.254\.169\.254|metadata", text):
        return f"{path}: there are no credentials for it: set {variables} in the environment"
    if isinstance(error, exceptions.NotSupportedError) or code == "NotImplemented":
        return unconditional(path)
    if "BadScheme" in text or "URL scheme is not allowed" in text:
        return f"{path}: AWS_ENDPOINT_URL uses http://, which others can read: use https://, or AWS_ALLOW_HTTP=true"
    status = re.search(r"status code: (\d{3}[^:\n]{0,40})", text)
    innermost = text.partition("\n")[0].rpartition(" - ")[2][-200:]
    return _unreached(path, code or (status and status[1]) or innermost)


def _unreached(path: Path, cause: str) -> str:
    return f"{path} cannot be reached: {cause}. Finished work is kept: run the same command again to continue"


def unconditional(path: Path) -> str:
    return (
        f"{path}: the server of this bucket does not support conditional writes (If-None-Match, If-Match), which keep "
        "two runs apart. Use a server that supports them: the clouds and most current servers do"
    )


def seen(meta: Any) -> dict[str, str]:
    """The version of an object, as a conditional `put` takes it: it replaces that one and no other."""
    return {name: meta[name] for name in ("e_tag", "version") if meta[name] is not None}
