"""How a verb ends: every error becomes a sentence, with ``--json`` a value, and an exit code."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict
from enum import IntEnum
from typing import TYPE_CHECKING, NoReturn

import typer

from putifabsent.errors import NameTaken, OutcomeUnknown, UnsafeStore, sentence_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from putifabsent.cli.rendering import Screen
    from putifabsent.errors import Holder

__all__ = ["Exit", "exits"]

_EXTRAS = {
    "adlfs": "azure", "azure": "azure",
    "gcsfs": "gcs", "google": "gcs",
    "s3fs": "s3", "aiobotocore": "s3", "botocore": "s3", "obstore": "s3",
    "aiohttp": "service", "pydantic": "service",
    "duckdb": "lab", "matplotlib": "lab", "numpy": "lab",
    "fastavro": "timeline",
    "localbucket": "demo", "pyarrow": "demo", "pypaimon": "demo",
}  # fmt: skip


class Exit(IntEnum):
    """What a verb exits with, for scripts.

    =====  ==========================================================================
    0      done
    1      the answer is no: an unsafe store, a lost commit, a taken name, a damaged table, a broken promise
    2      usage: an argument, an option, a missing package
    3      whether the name was created is unknown: keep the bytes, resolve the token
    4      it could not be done, and nothing was created
    =====  ==========================================================================
    """

    DONE = 0
    NO = 1
    USAGE = 2
    UNKNOWN = 3
    FAILED = 4


@contextmanager
def exits(screen: Screen, url: str = "URL") -> Iterator[None]:
    """Turn what is raised inside into an exit; ``url`` is the name it is about."""
    try:
        yield
    except typer.Exit:
        raise
    except KeyboardInterrupt as error:
        # Interrupted after a request had gone out: the cause has the token.
        if not isinstance(error.__cause__, OutcomeUnknown):
            raise
        _unknown(screen, url, error.__cause__)
    except OutcomeUnknown as error:
        _unknown(screen, url, error)
    except NameTaken as error:
        screen.json({"outcome": "taken", "name": url, "holder": _fields(error.holder)})
        _end(screen, Exit.NO, error)
    except UnsafeStore as error:
        screen.json({"outcome": "unsafe", "message": sentence_of(error)})
        _end(screen, Exit.NO, error)
    except ImportError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0], "all")
        screen.json({"outcome": "usage", "message": sentence_of(error)})
        _end(screen, Exit.USAGE, error, f"pip install 'putifabsent[{extra}]'")
    except ValueError as error:
        screen.json({"outcome": "usage", "message": sentence_of(error)})
        _end(screen, Exit.USAGE, error)
    except Exception as error:  # noqa: BLE001 - Python's own exit code is 1, which has a meaning here
        screen.json({"outcome": "failed", "message": sentence_of(error)})
        _end(screen, Exit.FAILED, error)


def _unknown(screen: Screen, url: str, error: OutcomeUnknown) -> NoReturn:
    screen.json({"outcome": "unknown", "name": url, "token": error.token, "message": sentence_of(error)})
    later = f"ask later, with the same options: putifabsent resolve {url} {error.token}"
    _end(screen, Exit.UNKNOWN, error, f"token: {error.token}", later)


def _end(screen: Screen, code: Exit, error: BaseException, *more: str) -> NoReturn:
    screen.error(sentence_of(error), *more)
    raise typer.Exit(code) from error


def _fields(holder: Holder | None) -> dict[str, object] | None:
    if holder is None:
        return None
    times = {key: time.isoformat() for key in ("created", "begun") if (time := getattr(holder, key))}
    return {**asdict(holder), **times}
