"""How requests, calls and outcomes are written down, so that two runs write the same."""

from __future__ import annotations

import re
import tempfile
from datetime import datetime
from typing import TYPE_CHECKING, Any

from putifabsent.backends.base import Creation, InMemory
from putifabsent.backends.registries import Claim
from putifabsent.backends.streaming_upload import FileBody
from tests.stub import Op

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.stub import Request

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}")
_NORMAL = (
    (re.compile(r"0{19}(\d)\.json"), r"...\1.json"),
    (re.compile(r"x-\w+-meta-putifabsent|\bputifabsent(?=token=|writer=)"), ""),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)?"), "<time>"),
    (re.compile(r"(127\.0\.0\.1|localhost):\d+"), "<host>"),
    (re.compile(re.escape(tempfile.gettempdir()) + r"/tmp\w+"), "<temporary>"),
    (re.compile(r"\bupload-\d+"), "<upload>"),
    (re.compile(r"\b[0-9a-f]+:[0-9a-f]+:[0-9a-f]+\b"), "<version>"),
)
_HEADERS = re.compile(
    r"if-.*|.*range|content-type|cache-control"
    r"|x-(amz|ms|goog)-(meta-.*|copy-source.*|metadata-directive|acl|blob-type|if-.*)"
)
# From here on a message is a client's, not the project's.
_CLIENTS = re.compile(
    r": (Generic \w+ error|Error performing|Server disconnected|Connection was closed|Could not connect)"
)
_QUERY = ("prefix", "delimiter", "startafter", "continuationtoken", "ifgenerationmatch", "partnumber")
_CARRIED = re.compile(rb'"(putifabsent\w+)": *"([^"]+)"')
_LISTED = re.compile(rb"<Key>(.*?)</Key>|DELETE [^ ]*?/(?:o|bucket)/([^ ?]*)")


def request_line(request: Request) -> str:
    """Return what a request asks for: not who sends it, nor when, nor what every request carries."""
    words = [request.op.value, request.key or request.bucket]
    if not request.bucket:
        words = [request.op.value, request.method, request.path]
    asked = {key: value for key, value in request.query.items() if key.lower().replace("-", "") in _QUERY}
    sent = {key: value for key, value in request.headers.items() if _HEADERS.fullmatch(key)}
    carried = {key.decode(): value.decode() for key, value in _CARRIED.findall(request.body)}
    named = [(a or b).decode() for a, b in _LISTED.findall(request.body)]
    words += [
        f"{key}={value}" for each in (asked, sent, carried) for key, value in sorted(each.items()) if value
    ]
    if request.op in (Op.PUT, Op.PART):
        words.append(f"[{len(request.body)}]")
    words += named
    return " ".join(words)


def call_line(of: str, method: str, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
    """Return a call of a contract."""
    said = [_argument(each) for each in args] + [
        f"{key}={_argument(each)}" for key, each in sorted(kwargs.items())
    ]
    return " ".join([f"{of}.{method}", *(each for each in said if each)])


def _argument(value: Any) -> str:
    if isinstance(value, Creation):
        extra = f" extra={dict(value.extra)}" if value.extra else ""
        return f"token={value.token} writer={value.writer} state={value.state}{extra}"
    if isinstance(value, (InMemory, FileBody)):
        return f"[{value.size}]"
    if isinstance(value, Claim):
        return f"{value.incarnation}{'live' if value.live else 'dead'}:{value.key}"
    if isinstance(value, bytes):
        return f"[{len(value)}]"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_argument, value))}]"
    if isinstance(value, (str, int, float)) or value is None:
        return str(value)
    return "" if type(value).__name__ == "NoOpCallback" else type(value).__name__


def value_line(value: Any) -> str:
    """Return what a caller is given: small values as they are, of others what kind they are."""
    return f"= {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, dict) and "name" in value and "size" in value:
        return f"<{value.get('type')} {value['name']} {value['size']}>"
    if isinstance(value, dict) and "ResponseMetadata" in value:
        return "<a client's answer>"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_value(value[key])}" for key in sorted(value, key=str)) + "}"
    if isinstance(value, (list, tuple, set)):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, (bytes, str, bool, datetime)) or value is None:
        return repr(value) if not isinstance(value, datetime) else "datetime"
    if isinstance(value, int):
        return str(value) if abs(value) < 2**32 else "<number>"
    return type(value).__name__


def error_line(error: BaseException) -> str:
    """Return an error's class, its message's first sentence, and the classes of what caused it."""
    said = _CLIENTS.split(re.split(r"\. |\n", str(error))[0])[0]
    line = f"! {type(error).__name__}: {said}" if said else f"! {type(error).__name__}"
    while error.__cause__ is not None:
        error = error.__cause__
        line += f" <- {type(error).__name__}"
    return line


def normal(lines: list[str], folder: str) -> list[str]:
    """Return lines without what varies: UUIDs are numbered in the order in which they are met."""
    known: dict[str, str] = {}
    found = []
    for line in lines:
        plain = line.replace(f"{folder}/", "")
        for pattern, instead in _NORMAL:
            plain = pattern.sub(instead, plain)
        found.append(_UUID.sub(lambda each: known.setdefault(each[0], f"<{len(known) + 1}>"), plain).rstrip())
    return found
