"""Requests as plain as they come, each sent exactly once."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.stub.server import Cloud, FaultStub


class Told(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


def ask(
    stub: FaultStub, cloud: Cloud, method: str, path: str, body: bytes = b"", /, **headers: str
) -> Told | None:
    """One request, sent once; None where the connection was closed without an answer."""
    address = urlsplit(stub.url(cloud))
    connection = http.client.HTTPConnection(address.netloc, timeout=30)
    try:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, address.path + path, body, sent)
        answer = connection.getresponse()
        return Told(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    except (http.client.RemoteDisconnected, ConnectionResetError):
        return None
    finally:
        connection.close()


def told(stub: FaultStub, cloud: Cloud, method: str, path: str, body: bytes = b"", /, **headers: str) -> Told:
    answer = ask(stub, cloud, method, path, body, **headers)
    assert answer is not None
    return answer


def create(stub: FaultStub, cloud: Cloud, body: bytes = b"mine") -> Told | None:
    if cloud == "s3":
        return ask(stub, cloud, "PUT", "/bucket/name", body, if_none_match="*")
    if cloud == "gcs":
        path = "/upload/storage/v1/b/bucket/o?uploadType=media&name=name&ifGenerationMatch=0"
        return ask(stub, cloud, "POST", path, body)
    return ask(stub, cloud, "PUT", "/bucket/name", body, if_none_match="*", x_ms_blob_type="BlockBlob")
