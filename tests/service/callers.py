"""Callers of a service, and the service in this process that they call."""

from __future__ import annotations

import uuid
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp

from putifabsent.service import Mounts, Settings, listening

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from tests.fsspec_plugin.grounds import Ground

__all__ = ["MANIFESTS", "SECRET", "Answer", "Caller", "answering", "manifest"]

SECRET = "a secret of more than sixteen characters"
MANIFESTS = "**/*.manifest"
"""What the mount guards beside its formats' names: no number of one comes before another's."""


def manifest(ground: Ground, number: int) -> str:
    """Return a guarded name that is in no series."""
    return ground.name(f"{number}.manifest")


class Answer(NamedTuple):
    """What the service says.

    Attributes
    ----------
    status
        Of HTTP.
    body
        Its JSON.
    headers
        Its headers.
    """

    status: int
    body: dict[str, Any]
    headers: Mapping[str, str]


@dataclass
class Caller:
    """One session of one writer, as the adapter in a JVM would call.

    Attributes
    ----------
    url
        The service's.
    http
        What sends.
    secret
        What it presents.
    session, writer
        For whom it calls.
    """

    url: str
    http: aiohttp.ClientSession
    secret: str = SECRET
    session: str = field(default_factory=lambda: str(uuid.uuid4()))
    writer: str = field(default_factory=lambda: str(uuid.uuid4()))

    @classmethod
    @asynccontextmanager
    async def at(cls, url: str) -> AsyncIterator[Caller]:
        """Return a caller of the service there."""
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
            yield cls(url, http)

    @property
    def headers(self) -> dict[str, str]:
        """What every call presents."""
        return {
            "Authorization": f"Bearer {self.secret}",
            "putifabsent-session": self.session,
            "putifabsent-writer": self.writer,
        }

    async def call(self, call: str, name: str, **fields: Any) -> Answer:
        """Make a call about a name on the disk."""
        return await self.post(call, json={"path": f"file:{name}", **fields})

    async def admitted(self, name: str) -> bool:
        """Ask what a plain write is; return whether it is a create."""
        answer = await self.call("admit", name)
        if answer.status != 200:
            raise AssertionError(answer)
        return bool(answer.body["guarded"])

    async def create(self, name: str, data: bytes, token: str | None = None, **fields: Any) -> Answer:
        """Create a name."""
        query = {"path": f"file:{name}", "token": token or str(uuid.uuid4()), **fields}
        return await self.post("create", params=query, data=data)

    async def counts(self) -> str:
        """Return the metrics."""
        async with self.http.get(f"{self.url}/v1/metrics", headers=self.headers) as answer:
            return await answer.text()

    async def post(self, call: str, **request: Any) -> Answer:
        """Send anything."""
        request.setdefault("headers", self.headers)
        async with self.http.post(f"{self.url}/v1/{call}", **request) as answer:
            return Answer(answer.status, await answer.json(), dict(answer.headers))


@asynccontextmanager
async def answering(settings: Mapping[str, Any]) -> AsyncIterator[str]:
    """Have a service answer in this process; return its address."""
    parsed = Settings.model_validate(settings)
    async with listening(parsed, Mounts(parsed.mounts)) as address:
        yield address
