"""What goes wrong with a request to DynamoDB, worded as its developer guide has it."""

from __future__ import annotations

import json
from enum import Enum
from typing import TYPE_CHECKING, Any

from tests.fault_proxy import Fault

if TYPE_CHECKING:
    from tests.fault_proxy import Request

__all__ = ["Trouble", "answer", "body_of"]


def _http(status: int, body: str, headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status} -\r\n{headers}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


def answer(described: dict[str, Any], status: int = 200) -> Fault:
    """Return what has this answered instead of what the server would say, and nothing applied."""
    return Fault(applies=False, says=_http(status, json.dumps(described), "x-amzn-RequestId: PROXY\r\n"))


def _error(status: int, code: str, *, applies: bool = False) -> tuple[bool, bytes]:
    kind = f"com.amazonaws.dynamodb.v20120810#{code}"
    return applies, answer({"__type": kind, "message": code}, status).says


def body_of(request: Request) -> dict[str, Any]:
    """Return what was asked."""
    body: dict[str, Any] = json.loads(request.data.partition(b"\r\n\r\n")[2])
    return body


class Trouble(Fault, Enum):
    """One thing that goes wrong with one request."""

    DROPPED_BEFORE = (False,)
    DROPPED_AFTER = (True,)
    RESET_AFTER = (True, b"", False, True)
    LATE = (True, b"", True)
    ERROR_500_BEFORE = _error(500, "InternalServerError")
    ERROR_500_AFTER = _error(500, "InternalServerError", applies=True)
    ERROR_503_BEFORE = _error(503, "ServiceUnavailable")
    ERROR_503_AFTER = _error(503, "ServiceUnavailable", applies=True)
    GATEWAY_AFTER = (True, _http(502, "<html>"))
    NONSENSE_AFTER = (True, _http(200, "<html>"))
    THROUGHPUT = _error(400, "ProvisionedThroughputExceededException")
    THROTTLED = _error(400, "ThrottlingException")
    LIMITED = _error(400, "RequestLimitExceeded")
    CONFLICT = _error(400, "TransactionConflictException")
    DENIED = _error(400, "AccessDeniedException")
    EXPIRED = _error(400, "ExpiredTokenException")
    UNKNOWN_KEY = _error(400, "UnrecognizedClientException")
    INVALID = _error(400, "ValidationException")
