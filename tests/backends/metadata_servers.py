"""A fake of the servers that a cloud's machines and containers ask who they are: credentials that expire."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FakeMetadata", "metadata_server"]

_ROLE = "/latest/meta-data/iam/security-credentials/"
_GOOGLE = "/computeMetadata/v1"
_PROJECT = f"{_GOOGLE}/project/project-id"
_ACCOUNT = f"{_GOOGLE}/instance/service-accounts/default/"
_TOKENS = ("/token", f"{_ACCOUNT}token")


class FakeMetadata:
    """What it answers.

    Attributes
    ----------
    url
        Where it listens.
    key
        The access key, or the token, that it hands out.
    lifetime
        How long what it hands out is good for. botocore renews what has less than ten minutes.
    is_down
        Whether it answers nothing but 500.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.key = "KEY1"
        self.lifetime = timedelta(hours=6)
        self.is_down = False

    def answer(self, path: str) -> str | None:
        """Return the body for one path: EC2's, version 2, a container's, or Google's."""
        if path == _ROLE:
            return "role"
        if path in ("/", _PROJECT):
            return "project"
        if path.partition("?")[0] == _ACCOUNT:
            return json.dumps({"email": "default", "scopes": [], "aliases": ["default"]})
        if path.partition("?")[0] in _TOKENS:
            return json.dumps(
                {
                    "access_token": self.key,
                    "expires_in": int(self.lifetime.total_seconds()),
                    "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
                    "token_type": "Bearer",
                }
            )
        if path not in (f"{_ROLE}role", "/container"):
            return None
        ends = datetime.now(timezone.utc) + self.lifetime
        return json.dumps(
            {
                "Code": "Success",
                "AccessKeyId": self.key,
                "SecretAccessKey": "secret",
                "Token": "token",
                "Expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
        )


@contextmanager
def metadata_server() -> Iterator[FakeMetadata]:
    """Run it, on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = fake.answer(self.path)
            self._answers(500 if fake.is_down else 404 if body is None else 200, body or "")

        def do_PUT(self) -> None:
            self._answers(500 if fake.is_down else 200, "of the session")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def _answers(self, status: int, body: str) -> None:
            self.send_response(status)
            self.send_header("Metadata-Flavor", "Google")
            self.send_header("Content-Type", "application/json" if body.startswith("{") else "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        fake = FakeMetadata(f"http://127.0.0.1:{running.server_port}")
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield fake
        running.shutdown()
        thread.join()
