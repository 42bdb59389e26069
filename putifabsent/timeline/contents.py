"""What instants say: Avro, or the JSON of table version 6, decoded."""

from __future__ import annotations

import io
import json
from typing import Any

from putifabsent.errors import ConfigError
from putifabsent.timeline.problems import Problem, Problems, Trouble, report
from putifabsent.timeline.records import Content

__all__ = ["avro", "content_of"]

_AVRO = b"Obj\x01"


def avro() -> Any:
    """Return the package that reads Avro.

    Raises
    ------
    ConfigError
        It is not installed.
    """
    try:
        import fastavro
    except ImportError as error:
        reason = "what Hudi's instants say is written in Avro: pip install 'putifabsent[timeline]'"
        raise ConfigError(reason) from error
    return fastavro


def content_of(written: bytes | None, path: str, problems: Problems | None = None) -> Content | None:
    """Return what a file says, or a field of the history; None: nothing, or it can't be read.

    Parameters
    ----------
    written
        All of its bytes. None and ``b""`` are nothing: Hudi requests a commit by an empty file.
    path
        Where they are from, for problems.
    problems
        Takes it, if they are neither Avro with one record nor an object of JSON; None: that is raised.
    """
    if not written:
        return None
    try:
        return _of_avro(written) if written.startswith(_AVRO) else Content("", _of_json(written))
    except (EOFError, IndexError, KeyError, TypeError, ValueError) as error:
        report(problems, Problem(path, Trouble.UNREADABLE, f"it is torn, or no instant's: {error}"), error)
        return None


def _of_avro(written: bytes) -> Content:
    reader = avro().reader(io.BytesIO(written))
    kind = str(reader.writer_schema["name"]).rpartition(".")[2]
    records = list(reader)
    if len(records) != 1:
        raise ValueError(f"{len(records)} records, where there is one")
    return Content(kind, records[0])


def _of_json(written: bytes) -> dict[str, Any]:
    value = json.loads(written)
    if not isinstance(value, dict):
        raise TypeError("JSON, but no object")
    return value
