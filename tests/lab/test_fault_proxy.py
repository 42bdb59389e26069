"""What the proxy loses is lost to the client alone, or to the server too; all else passes as it came."""

from __future__ import annotations

import contextlib
import http.client
import random
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, nullcontext
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

import pytest

from putifabsent.errors import ConfigError
from putifabsent.lab.servers import LossyProxy
from tests.fault_proxy import DELAYED, HELD, LOST_ANSWER, LOST_REQUEST, FaultProxy
from tests.faults.failover import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Losing: TypeAlias = "Callable[..., LossyProxy]"

PATIENCE = 30
MEBIBYTE = random.Random(1).randbytes(2**20)


class Server(ThreadingHTTPServer):
    """Keeps what is put, and what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        self.objects: dict[str, bytes] = {}
        self.asked: list[tuple[str, str]] = []
        self.opened = 0
        self.has_closed = threading.Event()


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.server.opened += 1

    def finish(self) -> None:
        super().finish()
        self.server.has_closed.set()

    def do_PUT(self) -> None:
        self.server.asked.append(("PUT", self.path))
        self.server.objects[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(201, b"")

    def do_GET(self) -> None:
        self.server.asked.append(("GET", self.path))
        data = self.server.objects.get(self.path)
        self._answer(404 if data is None else 200, data or b"")

    def _answer(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture(params=[LossyProxy, partial(FaultProxy, fault=LOST_ANSWER)], ids=["lossy", "faulty"])
def losing(request: pytest.FixtureRequest) -> Losing:
    made: Losing = request.param
    return made


def client(endpoint: str) -> closing[http.client.HTTPConnection]:
    return closing(http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=PATIENCE))


def put(connection: http.client.HTTPConnection, name: str, data: bytes = b"x") -> int:
    connection.request("PUT", name, data)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def connected(endpoint: str) -> socket.socket:
    address = urlsplit(endpoint)
    return socket.create_connection((str(address.hostname), int(address.port or 0)), PATIENCE)


def all_of(sock: socket.socket) -> bytes:
    """Return what comes until the other side closes."""
    came = b""
    with contextlib.suppress(ConnectionError):
        while data := sock.recv(2**16):
            came += data
    return came


def arrived(endpoint: str, names: Sequence[str]) -> list[str]:
    """Put each name by a connection of its own; return those whose answer has come."""
    came = []
    for name in names:
        with client(endpoint) as connection:
            try:
                put(connection, name)
            except ConnectionError:
                continue
            came.append(name)
    return came


NAMES = [f"/{number}" for number in range(5)]
MANY = [f"/{number}" for number in range(200)]


def test_nothing_is_lost_of_a_share_of_none(losing: Losing, server: Server) -> None:
    with losing(server.endpoint, share=0) as proxy:
        assert arrived(proxy.endpoint, NAMES) == NAMES
    assert (proxy.received, proxy.lost) == (5, 0)
    assert server.asked == [("PUT", name) for name in NAMES]


def test_each_request_of_a_connection_that_is_kept_alive_counts(losing: Losing, server: Server) -> None:
    with losing(server.endpoint, share=0) as proxy, client(proxy.endpoint) as connection:
        for name in NAMES:
            assert put(connection, name, name.encode()) == 201
            connection.request("GET", name)
            assert connection.getresponse().read() == name.encode()
    assert (proxy.received, proxy.lost) == (10, 0)
    assert server.opened == 1


def test_many_connections_at_a_time_are_served(losing: Losing, server: Server) -> None:
    with losing(server.endpoint, share=0) as proxy, ThreadPoolExecutor(16) as clients:
        came = list(clients.map(lambda name: arrived(proxy.endpoint, [name]), MANY))
    assert came == [[name] for name in MANY]
    assert proxy.received == len(server.asked) == len(MANY)


@pytest.mark.parametrize("share", [0, 1])
def test_a_body_that_takes_many_packets_is_one_request(losing: Losing, server: Server, share: float) -> None:
    lost = pytest.raises(ConnectionError) if share else nullcontext()
    with (
        losing(server.endpoint, share=share) as proxy,
        client(proxy.endpoint) as connection,
        lost,
    ):
        put(connection, "/large", MEBIBYTE)
    assert server.objects == {"/large": MEBIBYTE}
    assert (proxy.received, proxy.lost) == (1, share)


def test_an_answer_that_takes_many_packets_is_whole(losing: Losing, server: Server) -> None:
    server.objects["/large"] = MEBIBYTE
    with losing(server.endpoint, share=0) as proxy, client(proxy.endpoint) as connection:
        for _ in range(2):
            connection.request("GET", "/large")
            assert connection.getresponse().read() == MEBIBYTE
    assert proxy.received == 2


def test_a_request_whose_answer_is_lost_was_applied(losing: Losing, server: Server) -> None:
    with losing(server.endpoint, share=1) as proxy:
        assert arrived(proxy.endpoint, NAMES) == []
    assert server.asked == [("PUT", name) for name in NAMES]
    assert (proxy.received, proxy.lost) == (5, 5)


def test_it_is_applied_before_the_client_sees_the_end(losing: Losing, server: Server) -> None:
    with losing(server.endpoint, share=1) as proxy:
        for name in NAMES:
            assert arrived(proxy.endpoint, [name]) == []
            assert name in server.objects


def test_a_request_that_is_lost_gets_nowhere(server: Server) -> None:
    with FaultProxy(server.endpoint, LOST_REQUEST, share=1) as proxy:
        assert arrived(proxy.endpoint, NAMES) == []
    assert server.asked == []
    assert (len(proxy.requests), proxy.lost) == (5, 5)


@pytest.mark.parametrize("data", [b"x", MEBIBYTE], ids=["small", "large"])
def test_a_lost_request_on_a_connection_that_was_in_use_gets_nowhere(server: Server, data: bytes) -> None:
    with FaultProxy(server.endpoint, LOST_REQUEST, share=0) as proxy, client(proxy.endpoint) as connection:
        put(connection, "/first")
        proxy.share = 1
        with pytest.raises(ConnectionError):
            put(connection, "/second", data)
    assert server.asked == [("PUT", "/first")]
    assert (len(proxy.requests), proxy.lost) == (2, 1)


def test_of_a_share_about_so_many_answers_are_lost(losing: Losing, server: Server) -> None:
    with losing(server.endpoint, share=0.25, seed=1) as proxy:
        came = arrived(proxy.endpoint, MANY)
    assert len(server.objects) == proxy.received == len(MANY)
    assert proxy.lost == len(MANY) - len(came)
    assert 30 <= proxy.lost <= 70


def test_of_a_share_about_so_many_requests_are_lost(server: Server) -> None:
    with FaultProxy(server.endpoint, LOST_REQUEST, share=0.25, seed=1) as proxy:
        came = arrived(proxy.endpoint, MANY)
    assert list(server.objects) == came
    assert len(proxy.requests) == len(MANY)
    assert proxy.lost == len(MANY) - len(came)
    assert 30 <= proxy.lost <= 70


def test_a_seed_loses_the_same_ones(losing: Losing, server: Server) -> None:
    runs = []
    for _ in range(2):
        with losing(server.endpoint, share=0.5, seed=7) as proxy:
            runs.append(arrived(proxy.endpoint, MANY[:50]))
    assert runs[0] == runs[1]


def test_the_share_may_be_set_while_it_runs(losing: Losing, server: Server) -> None:
    with losing(server.endpoint, share=0) as proxy:
        assert arrived(proxy.endpoint, NAMES) == NAMES
        proxy.share = 1
        assert arrived(proxy.endpoint, NAMES) == []
        proxy.share = 0
        assert arrived(proxy.endpoint, NAMES) == NAMES
    assert (proxy.received, proxy.lost) == (15, 5)


EXPECTING = b"PUT /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"


@pytest.mark.parametrize(("share", "answer"), [(0, b"HTTP/1.1 201 "), (1, b"")])
def test_whether_to_continue_is_no_answer(
    losing: Losing, server: Server, share: float, answer: bytes
) -> None:
    with losing(server.endpoint, share=share) as proxy, connected(proxy.endpoint) as sock:
        sock.sendall(EXPECTING)
        assert sock.recv(2**16).startswith(b"HTTP/1.1 100 ")
        sock.sendall(b"data")
        assert sock.recv(2**16)[:13] == answer
    assert server.objects == {"/1": b"data"}
    assert (proxy.received, proxy.lost) == (1, share)


def test_an_answer_right_behind_a_word_to_continue_is_lost_too(losing: Losing) -> None:
    """A client need not wait for that word, and then both may come as one packet."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        endpoint = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with losing(endpoint, share=1) as proxy, connected(proxy.endpoint) as sock:
            sock.sendall(EXPECTING + b"data")
            answering, _ = listening.accept()
            with answering:
                answering.recv(2**16)
                answering.sendall(
                    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"
                )
                assert b"201" not in all_of(sock)
    assert (proxy.received, proxy.lost) == (1, 1)


def test_what_is_held_gets_there_when_the_proxy_is_calmed(server: Server) -> None:
    with FaultProxy(server.endpoint) as proxy, ThreadPoolExecutor(2) as clients:
        proxy.script("PUT", HELD, HELD, HELD)
        held = clients.map(lambda name: arrived(proxy.endpoint, [name]), NAMES[:2])
        until(lambda: proxy.lost == 2)
        assert server.asked == []
        assert proxy.calm() == 1
        assert list(held) == [[name] for name in NAMES[:2]]
        assert arrived(proxy.endpoint, NAMES[2:]) == NAMES[2:]


def test_what_is_held_when_the_proxy_is_calmed_gets_there_also_if_its_body_comes_later(
    server: Server,
) -> None:
    with FaultProxy(server.endpoint) as proxy, connected(proxy.endpoint) as sock:
        proxy.script("PUT", HELD)
        sock.sendall(b"PUT /0 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nConnection: close\r\n\r\n")
        until(lambda: proxy.lost == 1)
        proxy.calm()
        assert arrived(proxy.endpoint, NAMES[1:]) == NAMES[1:]
        sock.sendall(b"x")
        assert b"201" in all_of(sock)


def test_what_is_held_for_a_client_that_is_gone_gets_nowhere(server: Server) -> None:
    with FaultProxy(server.endpoint) as proxy:
        proxy.script("PUT", HELD)
        with connected(proxy.endpoint) as sock:
            sock.sendall(b"PUT /0 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n")
            until(lambda: proxy.lost == 1)
            sock.sendall(b"x")
        assert server.has_closed.wait(PATIENCE)
        proxy.calm()
        assert arrived(proxy.endpoint, NAMES[1:]) == NAMES[1:]
    assert server.asked == [("PUT", name) for name in NAMES[1:]]


def test_what_is_delayed_gets_there_although_its_client_is_gone(server: Server) -> None:
    with FaultProxy(server.endpoint) as proxy:
        proxy.script("PUT", DELAYED)
        with connected(proxy.endpoint) as sock:
            sock.sendall(b"PUT /0 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n")
            until(lambda: proxy.lost == 1)
            sock.sendall(b"x")
        assert arrived(proxy.endpoint, NAMES[1:]) == NAMES[1:]
        proxy.calm()
        until(lambda: server.objects.get("/0") == b"x")
    assert server.asked[-1] == ("PUT", "/0")


@pytest.mark.parametrize("endpoint", ["https://127.0.0.1:9000", "127.0.0.1:9000", "http://"])
def test_only_a_plain_http_endpoint_is_taken(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="http://"):
        FaultProxy(endpoint)


@pytest.mark.parametrize(("path", "kept"), [("", ""), ("/", ""), ("/a/base", "/a/base"), ("/base/", "/base")])
def test_an_endpoint_keeps_its_path(server: Server, path: str, kept: str) -> None:
    with FaultProxy(server.endpoint + path) as proxy:
        assert proxy.endpoint == f"http://{proxy.address}{kept}"
        assert arrived(proxy.endpoint, NAMES[:1]) == NAMES[:1]


def test_an_address_that_is_not_this_machine_s_is_an_error(server: Server) -> None:
    proxy = FaultProxy(server.endpoint, host="203.0.113.1")
    with pytest.raises(OSError, match="address"), proxy:
        pass


def test_its_end_closes_its_connections(losing: Losing, server: Server) -> None:
    with ExitStack() as around:
        with losing(server.endpoint, share=0) as proxy:
            connection = around.enter_context(client(proxy.endpoint))
            put(connection, "/1")
        assert all_of(connection.sock) == b""
        assert server.has_closed.wait(PATIENCE)


def test_its_end_closes_a_connection_whose_client_does_not_read(losing: Losing, server: Server) -> None:
    server.objects["/large"] = MEBIBYTE * 32
    with ExitStack() as around:
        with losing(server.endpoint, share=0) as proxy:
            sock = around.enter_context(connected(proxy.endpoint))
            sock.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
            sock.recv(1)
        assert len(all_of(sock)) < len(MEBIBYTE) * 32


def test_after_its_end_nobody_listens(server: Server) -> None:
    with FaultProxy(server.endpoint) as proxy:
        pass
    with pytest.raises(ConnectionRefusedError):
        connected(proxy.endpoint)
