"""Requests and answers as they are on the wire, and what each cloud's dialect must say."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import xml.etree.ElementTree as ET
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from tests.stub.faults import Op

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from tests.stub.faults import Conditions, Reply
    from tests.stub.state import Name, State, StoredObject

_RANGE = re.compile(r"bytes=(\d*)-(\d*)$")
# A racing request that meets no other goes on after this many seconds.
_ALONE = 2


@dataclass(frozen=True)
class Request:
    """One request as it was received, to its last byte.

    Attributes
    ----------
    op, bucket, key
        What it asks for, and of which name. ``key`` is decoded.
    method, path
        The path is as sent: percent-encoded, with no query.
    query, headers
        Decoded; a header's name is in small letters.
    """

    op: Op
    bucket: str
    key: str
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @classmethod
    def received(cls, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Request:
        """What arrived, before any dialect has read it."""
        path, _, query = target.partition("?")
        asked = dict(parse_qsl(query, keep_blank_values=True))
        return cls(Op.OTHER, "", "", method, path, asked, headers, body)

    def asks(self, op: Op, bucket: str = "", key: str = "") -> Request:
        """The same request, now that a dialect knows what it asks for."""
        return replace(self, op=op, bucket=bucket, key=key)

    @property
    def name(self) -> Name:
        """Bucket and key."""
        return self.bucket, self.key


@dataclass
class Answer:
    """What goes back."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


Doing: TypeAlias = "Callable[[Request], Answer | Awaitable[Answer]]"


class Dialect(ABC):
    """How one cloud's API says things.

    Parameters
    ----------
    state
        What is held.
    conditions
        How honest PUT, COMPLETE and COPY are; the others always are.

    Attributes
    ----------
    does
        What does each operation.
    """

    def __init__(self, state: State, conditions: Mapping[Op, Conditions]) -> None:
        self.state = state
        self.conditions = conditions
        self._crossing: dict[Name, asyncio.Event] = {}
        self.does: dict[Op, Doing] = {}

    @abstractmethod
    def read(self, request: Request) -> Request:
        """Say what a request asks for."""

    @abstractmethod
    def misled(self, request: Request) -> Answer | None:
        """The answer to a request that can't be done: no such bucket, a name too long, an unknown op."""

    @abstractmethod
    def word(self, reply: Reply, request: Request) -> Answer:
        """Word a fault's answer."""

    async def apply(self, request: Request) -> Answer:
        """Do it. Without a race it never lets another request in between."""
        misled = self.misled(request)
        if misled is not None:
            return misled
        done = self.does[request.op](request)
        return done if isinstance(done, Answer) else await done

    async def taken(self, request: Request) -> bool:
        """Whether a create must be refused, as honestly as the stub was told to be."""
        honesty = self.conditions.get(request.op, "honoured")
        held = request.name in self.state.objects
        if honesty == "raced" and not held:
            await self._cross(request.name)
        return held and honesty != "ignored"

    async def _cross(self, name: Name) -> None:
        """Let another request for the name look as well before this one writes."""
        first = self._crossing.pop(name, None)
        if first is not None:
            first.set()
            return
        mine = self._crossing[name] = asyncio.Event()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(mine.wait(), _ALONE)
        if self._crossing.get(name) is mine:
            del self._crossing[name]


def xml(name: str, *inner: str, **fields: object) -> str:
    """An element with these texts and these elements, in that order; ``name`` may carry attributes."""
    texts = "".join(f"<{key}>{escape(str(value))}</{key}>" for key, value in fields.items())
    return f"<{name}>{texts}{''.join(inner)}</{name.split(maxsplit=1)[0]}>"


def document(root: str) -> bytes:
    """A whole XML document."""
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{root}'.encode()


def json_answer(told: dict[str, Any], status: int = HTTPStatus.OK) -> Answer:
    """An answer in JSON."""
    return Answer(status, {"content-type": "application/json; charset=UTF-8"}, json.dumps(told).encode())


def content(data: bytes, asked: str | None) -> Answer | None:
    """The bytes that a Range header asks for; None where there are no such bytes."""
    headers = {"accept-ranges": "bytes"}
    match = _RANGE.match(asked or "")
    if match is None or match.groups() == ("", ""):
        return Answer(HTTPStatus.OK, headers, data)
    first, last = match.groups()
    start = int(first) if first else max(0, len(data) - int(last))
    stop = min(int(last) + 1, len(data)) if first and last else len(data)
    if start >= stop:
        return None
    headers["content-range"] = f"bytes {start}-{stop - 1}/{len(data)}"
    return Answer(HTTPStatus.PARTIAL_CONTENT, headers, data[start:stop])


def mismatch(etag: str | None, headers: Mapping[str, str]) -> HTTPStatus | None:
    """What RFC 9110's conditions say to an entity tag (None: to no object): 304, 412, or None to go on."""
    wanted = headers.get("if-match")
    if wanted is not None and (etag is None or wanted.strip('"') not in {"*", etag}):
        return HTTPStatus.PRECONDITION_FAILED
    if etag is not None and headers.get("if-none-match", "").strip('"') in {"*", etag}:
        return HTTPStatus.NOT_MODIFIED
    return None


def timestamp(stored: StoredObject) -> str:
    """When it was written, as XML answers say it."""
    return stored.last_modified.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def parsed(request: Request) -> ET.Element:
    """The XML document that a request carries."""
    return ET.fromstring(request.body)  # noqa: S314 - a client of the same test wrote it
