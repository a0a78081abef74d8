"""Google Cloud Storage on loopback: its XML interface, which delta-rs uses, answered by moto's S3.

The two interfaces are the same but for a few headers. The emulators that can be installed know only the JSON interface.

    python -m support.pipeline.gcs_server PORT
"""

import sys
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

_HEADERS = {"HTTP_X_GOOG_COPY_SOURCE": "HTTP_X_AMZ_COPY_SOURCE"}
_SIGNED = "AWS4-HMAC-SHA256 Credential=AKIAGOOGLE/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
_S3 = DomainDispatcherApplication(create_backend_app)


def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    environ["HTTP_AUTHORIZATION"] = _SIGNED  # moto reads the region in it, and shows objects to whoever signs
    for google, amazon in _HEADERS.items():
        if (value := environ.pop(google, None)) is not None:
            environ[amazon] = value
    if environ.pop("HTTP_X_GOOG_IF_GENERATION_MATCH", None) == "0":  # only if there is no such object
        environ["HTTP_IF_NONE_MATCH"] = "*"

    def started(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
        return start(status, [*headers, ("x-goog-generation", "1")], *more)

    found: Iterable[bytes] = _S3(environ, started)
    return found


if __name__ == "__main__":
    run_simple("127.0.0.1", int(sys.argv[1]), answer, threaded=True)
