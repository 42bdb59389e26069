"""A proxy before a DynamoDB server that makes things go wrong, and counts what is sent.

It is no server of its own: what is applied is applied by the server behind it. What it says in that
server's stead (throttling, 500, a refusal) is worded as DynamoDB's developer guide has it.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections import defaultdict, deque
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

_PREFIX = "com.amazonaws.dynamodb.v20120810#"
_REQUEST_ID = "x-amzn-RequestId"
_HELD_SECONDS = 60


@dataclass(frozen=True)
class Said:
    """What is answered instead of what the server says; no status: nothing, and the connection is closed."""

    applies: bool
    status: int = 0
    code: str = ""
    late: bool = False


class Trouble(Enum):
    """One thing that goes wrong with one request."""

    DROPPED_BEFORE = Said(applies=False)
    DROPPED_AFTER = Said(applies=True)
    LATE = Said(applies=True, late=True)
    ERROR_500_BEFORE = Said(applies=False, status=500, code="InternalServerError")
    ERROR_500_AFTER = Said(applies=True, status=500, code="InternalServerError")
    ERROR_503_BEFORE = Said(applies=False, status=503, code="ServiceUnavailable")
    ERROR_503_AFTER = Said(applies=True, status=503, code="ServiceUnavailable")
    GATEWAY_AFTER = Said(applies=True, status=502, code="<html>")
    NONSENSE_AFTER = Said(applies=True, status=200, code="<html>")
    THROUGHPUT = Said(applies=False, status=400, code="ProvisionedThroughputExceededException")
    THROTTLED = Said(applies=False, status=400, code="ThrottlingException")
    LIMITED = Said(applies=False, status=400, code="RequestLimitExceeded")
    CONFLICT = Said(applies=False, status=400, code="TransactionConflictException")
    DENIED = Said(applies=False, status=400, code="AccessDeniedException")
    EXPIRED = Said(applies=False, status=400, code="ExpiredTokenException")
    UNKNOWN_KEY = Said(applies=False, status=400, code="UnrecognizedClientException")
    INVALID = Said(applies=False, status=400, code="ValidationException")


class Received(NamedTuple):
    """One request as it arrived."""

    operation: str
    body: dict[str, Any]


class Answer(NamedTuple):
    """What goes back."""

    status: int
    body: bytes
    request_id: str | None = "PROXY"


class DynamoDBProxy:
    """The proxy. ``with DynamoDBProxy(endpoint) as proxy:`` starts it; ``proxy.url`` is where it is.

    Parameters
    ----------
    upstream
        The server's address.
    one_at_a_time
        For a server that decides nothing when two requests meet (moto).
    """

    def __init__(self, upstream: str, *, one_at_a_time: bool = False) -> None:
        self.requests: list[Received] = []
        self._upstream = urlsplit(upstream).netloc
        self._turn = threading.Lock() if one_at_a_time else None
        self._scripts: defaultdict[str, deque[Trouble | dict[str, Any] | None]] = defaultdict(deque)
        self._always: dict[str, Trouble] = {}
        self._over = threading.Event()
        self._running = ExitStack()
        self.url = ""

    def script(self, operation: str, *troubles: Trouble | dict[str, Any] | None) -> None:
        """Have the next requests for an operation go wrong, one each.

        A dictionary is answered as it is; at None nothing goes wrong.
        """
        self._scripts[operation].extend(troubles)

    def calm(self) -> int:
        """Have nothing scripted go wrong any more; return how much of it was left."""
        left = sum(map(len, self._scripts.values()))
        self._scripts.clear()
        return left

    def always(self, trouble: Trouble) -> None:
        """Have every request go wrong."""
        self._always[""] = trouble

    def sent(self, *operations: str) -> list[str]:
        """Return the operations that have arrived; those named, or all."""
        return [each.operation for each in self.requests if not operations or each.operation in operations]

    def __enter__(self) -> Self:
        server = _Server(("127.0.0.1", 0), _Conversation)
        server.proxy = self
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        self._running.callback(thread.join)
        self._running.callback(server.server_close)
        self._running.callback(server.shutdown)
        self._running.callback(self._over.set)
        self.url = f"http://127.0.0.1:{server.server_port}"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._running.close()

    def answer(self, headers: dict[str, str], body: bytes) -> Answer | None:
        """Return what goes back for one request; None closes the connection."""
        operation = headers.get("X-Amz-Target", "").partition(".")[2]
        self.requests.append(Received(operation, json.loads(body)))
        waiting = self._scripts[operation]
        trouble = waiting.popleft() if waiting else self._always.get("")
        if isinstance(trouble, dict):
            return Answer(200, json.dumps(trouble).encode())
        if trouble is None:
            return self._forward(headers, body)
        said = trouble.value
        if said.applies:
            self._forward(headers, body)
        if said.late:
            self._over.wait(_HELD_SECONDS)
        if not said.status:
            return None
        if said.code.startswith("<"):
            return Answer(said.status, said.code.encode(), request_id=None)
        error = {"__type": f"{_PREFIX}{said.code}", "message": trouble.name}
        return Answer(said.status, json.dumps(error).encode())

    def _forward(self, headers: dict[str, str], body: bytes) -> Answer:
        kept = {key: value for key, value in headers.items() if key.lower() not in ("host", "content-length")}
        with ExitStack() as held:
            if self._turn is not None:
                held.enter_context(self._turn)
            connection = http.client.HTTPConnection(self._upstream, timeout=_HELD_SECONDS)
            held.callback(connection.close)
            connection.request("POST", "/", body, kept)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read(), answer.getheader(_REQUEST_ID))


class _Server(ThreadingHTTPServer):
    proxy: DynamoDBProxy
    daemon_threads = True
    request_queue_size = 256


class _Conversation(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body of an answer are two writes; Nagle's algorithm would hold the second back.
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        told = self.server.proxy.answer(dict(self.headers.items()), body)
        if told is None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(told.status)
        if told.request_id:
            self.send_header(_REQUEST_ID, told.request_id)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(told.body)))
        self.end_headers()
        self.wfile.write(told.body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
