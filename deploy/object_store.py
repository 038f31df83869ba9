"""An S3 server on the loopback interface for `make cluster`: moto's, in memory, behind a check of every signature.

    AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=... python -m deploy.object_store BUCKET

It prints its port once it listens, and ends with the process that started it. moto checks no signature; here requests
must be signed with the two keys (AWS Signature Version 4), as on S3.
"""

import hmac
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.support.object_store import REGION, OneAtATime, serve

ALGORITHM = "AWS4-HMAC-SHA256"
_ACCOUNT = "123456789012"  # moto's own, the owner of what no account is named for


class Signed:
    """A WSGI application that answers 403 to requests that are not signed with its keys.

    The body is not hashed again: between two processes of one machine nobody can change it.
    """

    def __init__(self, application: Any, access_key: str, secret_key: str) -> None:
        self.application = application
        self.credentials = Credentials(access_key, secret_key)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        code = self._refused(environ)
        if code is None:
            return self.application(environ, start_response)
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode()
        start_response(
            "403 Forbidden",
            [("Content-Type", "application/xml"), ("Content-Length", str(len(body))), ("Connection", "close")],
        )
        return [body]

    def _refused(self, environ: Mapping[str, Any]) -> str | None:
        """S3's code of the error; None if the signature is right."""
        method, _, fields = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        given = dict(field.strip().partition("=")[::2] for field in fields.split(","))
        scope = given.get("Credential", "").split("/")
        if method != ALGORITHM or len(scope) != 5 or "Signature" not in given or "SignedHeaders" not in given:
            return "AccessDenied"
        if scope[0] != self.credentials.access_key:
            return "InvalidAccessKeyId"
        request = AWSRequest(
            environ["REQUEST_METHOD"],
            f"http://{environ.get('HTTP_HOST', '')}{environ['RAW_URI']}",
            {name: _header(environ, name) for name in given["SignedHeaders"].split(";")},
        )
        request.context["timestamp"] = environ.get("HTTP_X_AMZ_DATE", "")
        _, _, region, service, _ = scope
        signer = S3SigV4Auth(self.credentials, service, region)
        right = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
        return None if hmac.compare_digest(right, given["Signature"]) else "SignatureDoesNotMatch"


def _header(environ: Mapping[str, Any], name: str) -> str:
    plain = name.upper().replace("-", "_")
    value = environ.get(plain if plain in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{plain}", "")
    return " ".join(str(value).split())


def main(bucket: str) -> None:
    """Serve until standard input ends, as it does when the process that started this one ends, however it ends."""
    access_key, secret_key = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
    os.environ["MOTO_S3_DEFAULT_KEY_BUFFER_SIZE"] = str(2**40)  # bytes of an object before it goes to a disk
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from moto.s3.models import s3_backends

    s3_backends[_ACCOUNT]["aws"].create_bucket(bucket, REGION)
    application = Signed(OneAtATime(DomainDispatcherApplication(create_backend_app)), access_key, secret_key)
    serve(application)


if __name__ == "__main__":
    main(sys.argv[1])
