"""The stub itself: three sockets on one loop, in a thread of the test's own process."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar
from urllib.parse import unquote

from aiohttp import web

from tests.fault_proxy import reset
from tests.stub.azure import ACCOUNT, Azure
from tests.stub.faults import Op, Reply, Script, Step
from tests.stub.gcs import Gcs
from tests.stub.s3 import S3
from tests.stub.state import State
from tests.stub.wire import Answer, Dialect, Request
from tests.vouching import forget

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from datetime import datetime
    from types import TracebackType

    from typing_extensions import Self

    from tests.stub.faults import Conditions, Fault
    from tests.stub.state import Name, StoredObject, Upload

    Serve: TypeAlias = Callable[[Dialect, Request], Awaitable[Answer | None]]

Cloud: TypeAlias = Literal["s3", "gcs", "azure"]

# Mounts agree on their arbiter once a table, before they create anything: no test scripts or counts that.
_ASIDE = "/.putifabsent/arbiters/"

_T = TypeVar("_T")

_HOST = "127.0.0.1"
_PATIENCE = 30
# Every Azurite has this key, published with it; nobody checks it here.
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class _Reset(Exception):
    """The connection is to be reset."""


class FaultStub:
    """A fake object store that can lose answers. It speaks S3, GCS and Azure, over one set of objects.

    ``with FaultStub() as stub:`` starts it. Requests are counted once their last byte has arrived.

    Parameters
    ----------
    buckets
        Those that are there from the beginning (Azure: containers).
    conditions
        How honest it is about "only if the name is not there": for PUT, COMPLETE and COPY alike, or each.
    versioned
        Whether its S3 keeps versions.
    smallest_part
        S3 refuses smaller parts, but for the last one.
    largest_page
        No listing answers more at once, whatever it is asked for.
    serve
        Answers each request instead of the script, and nothing is counted; None closes the connection.
    """

    def __init__(
        self,
        *,
        buckets: Iterable[str] = ("bucket",),
        conditions: Conditions | Mapping[Op, Conditions] = "honoured",
        versioned: bool = False,
        smallest_part: int = 5 * 2**20,
        largest_page: int = 1000,
        serve: Serve | None = None,
    ) -> None:
        if isinstance(conditions, str):
            conditions = dict.fromkeys((Op.PUT, Op.COMPLETE, Op.COPY), conditions)
        self._state = State(buckets, versioned=versioned, largest_page=largest_page)
        self._dialects: dict[Cloud, Dialect] = {
            "s3": S3(self._state, conditions, smallest_part),
            "gcs": Gcs(self._state, conditions),
            "azure": Azure(self._state, conditions),
        }
        self._script = Script()
        self._serve = serve or self._by_script
        self._requests: list[Request] = []
        self._arrival = threading.Condition()
        self._broken: list[BaseException] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="FaultStub", daemon=True)
        self._servers: list[web.Server] = []
        self._listening: list[asyncio.Server] = []
        self._ports: dict[Cloud, int] = {}
        self._released: asyncio.Event | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(_PATIENCE)
        for cloud in self._ports:
            forget(self.url(cloud), cloud)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(_PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        self._loop.close()
        if self._broken and error is None:
            raise self._broken[0]

    # --- where it is ----------------------------------------------------------------------------------------

    def url(self, cloud: Cloud) -> str:
        """Its address for one cloud's clients; Azure's ends with the account."""
        address = f"http://{_HOST}:{self._ports[cloud]}"
        return f"{address}/{ACCOUNT}" if cloud == "azure" else address

    def storage_options(self, cloud: Cloud) -> dict[str, Any]:
        """What s3fs, gcsfs or adlfs wants to hear to find it. Add retries and time-outs."""
        if cloud == "s3":
            return {
                "key": "key",
                "secret": "secret",
                "endpoint_url": self.url("s3"),
                "client_kwargs": {"region_name": "us-east-1"},
            }
        if cloud == "gcs":
            return {"token": "anon", "project": "test", "endpoint_url": self.url("gcs")}
        connection = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={_KEY};"
        return {
            "account_name": ACCOUNT,
            "connection_string": f"{connection}BlobEndpoint={self.url('azure')};",
        }

    # --- what it holds and has seen -------------------------------------------------------------------------

    @property
    def objects(self) -> dict[Name, StoredObject]:
        """What is readable now, by bucket and key; without the records on which mounts agree."""
        return self.call(
            lambda state: {name: found for name, found in state.objects.items() if _ASIDE not in name[1]}
        )

    @property
    def history(self) -> dict[Name, list[StoredObject | None]]:
        """By bucket and key: every object ever written, and None for each deletion; otherwise the same."""
        return self.call(
            lambda state: {name: list(past) for name, past in state.history.items() if _ASIDE not in name[1]}
        )

    @property
    def uploads(self) -> dict[str, Upload]:
        """What is open: S3's uploads, GCS's sessions, Azure's loose blocks."""
        return self.call(lambda state: dict(state.uploads))

    @property
    def requests(self) -> list[Request]:
        """Every request, in the order of arrival."""
        return list(self._requests)

    @property
    def ops(self) -> list[Op]:
        """What each request asked for, in the order of arrival."""
        return [request.op for request in self._requests]

    def wait_for(self, op: Op, number: int = 1, *, key: str = "") -> Request:
        """Return the nth request of that operation (for that key) once it has arrived, answered or not."""

        def nth() -> Request | None:
            seen = [each for each in self._requests if each.op is op and key in ("", each.key)]
            return seen[number - 1] if len(seen) >= number else None

        with self._arrival:
            arrived = self._arrival.wait_for(nth, _PATIENCE)
        if arrived is None:
            raise TimeoutError(f"no {op.value} number {number} has arrived")
        return arrived

    # --- what goes wrong ------------------------------------------------------------------------------------

    def script(self, op: Op, *steps: Step | Fault | None, forever: bool = False) -> None:
        """Have the next requests of an operation take these steps; ``forever`` repeats the last one."""
        self.call(lambda _: self._script.add(op, steps, forever=forever))

    def calm(self) -> None:
        """Have nothing scripted go wrong any more."""

        def forget(_: State) -> None:
            self._script = Script()

        self.call(forget)

    def left(self) -> list[tuple[Op, Step]]:
        """The steps that no request has taken."""
        return self.call(lambda _: self._script.left())

    def release(self) -> None:
        """Give the late answers now."""
        self.call(lambda _: self._let_go())

    def reset(self) -> None:
        """Forget objects, uploads, requests and scripts. Clients stay connected; late answers are given."""

        def forget(state: State) -> None:
            self._let_go()
            state.clear()
            self._script = Script()
            self._requests.clear()

        self.call(forget)

    # --- what other writers do ------------------------------------------------------------------------------

    def put(
        self,
        bucket: str,
        key: str,
        data: bytes,
        metadata: Mapping[str, str] | None = None,
        *,
        last_modified: datetime | None = None,
    ) -> StoredObject:
        """Write as another writer, round every fault."""
        return self.call(lambda state: state.put(bucket, key, data, metadata, last_modified=last_modified))

    def delete(self, bucket: str, key: str) -> None:
        """Delete as another writer, round every fault."""
        self.call(lambda state: state.delete(bucket, key))

    def call(self, change: Callable[[State], _T]) -> _T:
        """Run something on the state, atomically; hooks do so already, and may call this as well."""
        if threading.current_thread() is self._thread or not self._thread.is_alive():
            return change(self._state)

        async def run() -> _T:
            return change(self._state)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(_PATIENCE)

    # --- on the loop ----------------------------------------------------------------------------------------

    async def _start(self) -> None:
        self._released = asyncio.Event()
        for cloud, dialect in self._dialects.items():
            server = web.Server(self._handler(dialect), auto_decompress=False, access_log=None)
            self._servers.append(server)
            listening = await self._loop.create_server(server, _HOST, 0, backlog=1024)
            self._listening.append(listening)
            self._ports[cloud] = listening.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        # Not `shutdown`: it would wait for clients that keep their connections.
        for listening in self._listening:
            listening.close()
        for server in self._servers:
            for connection in server.connections:
                connection.force_close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _let_go(self) -> None:
        held, self._released = self._released, asyncio.Event()
        if held is not None:
            held.set()

    def _handler(self, dialect: Dialect) -> Callable[[web.BaseRequest], Any]:
        async def handle(raw: web.BaseRequest) -> web.StreamResponse:
            headers = {name.lower(): value for name, value in raw.headers.items()}
            if headers.get("expect", "").lower() == "100-continue" and raw.transport is not None:
                raw.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = await raw.content.read()
            try:
                request = dialect.read(Request.received(raw.method, raw.raw_path, headers, body))
                answer = await self._serve(dialect, request)
            except _Reset:
                if raw.transport is not None:
                    reset(raw.transport)
                return web.Response()
            except Exception as error:
                # The stub is wrong, or a test's hook is: no client's retries may hide that.
                self._broken.append(error)
                raise
            if answer is None:
                if raw.transport is not None:
                    raw.transport.abort()
                return web.Response()
            # aiohttp leaves it out where the answer to a HEAD says "0", which real stores never do.
            length = {"Content-Length": str(len(answer.body))} if raw.method == "HEAD" else {}
            return web.Response(status=answer.status, headers={**length, **answer.headers}, body=answer.body)

        return handle

    async def _by_script(self, dialect: Dialect, request: Request) -> Answer | None:
        """Apply the request, or not, as its step says; None closes the connection."""
        if _ASIDE in unquote(request.path) or _ASIDE in request.query.get("prefix", ""):
            return await dialect.apply(request)
        with self._arrival:
            self._requests.append(request)
            self._arrival.notify_all()
        step = self._script.take(request.op)
        if step.before:
            step.before(self._state)
        answer = await dialect.apply(request) if step.applied else None
        if step.after:
            step.after(self._state)
        reply = step.fault.reply if step.fault else None
        if reply is Reply.DROPPED:
            return None
        if reply is Reply.RESET:
            raise _Reset
        if reply is Reply.LATE and self._released is not None:
            await self._released.wait()
            return answer
        return dialect.word(reply, request) if reply else answer
