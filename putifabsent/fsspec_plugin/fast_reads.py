"""Small guarded files, read by the store's own client: one request where the wrapped filesystem sends two.

The client only ever says what is there, and that nothing is; whatever else it meets is left to the wrapped
filesystem, which asks again, with its own retries and its own errors. So is all that a caller or a mount asks
for beside the file: ranges, versions, keys, who pays; and what a listing is remembered of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from putifabsent.backends.base import Absent, Described, Describes, Found, Got

if TYPE_CHECKING:
    from putifabsent.fsspec_plugin.names import Names
    from putifabsent.shim.names import Name

__all__ = ["UNANSWERED", "fast_read", "fast_read_async"]

UNANSWERED = object()
"""What is to be asked of the wrapped filesystem."""

_ASKS = {"cat_file": "get", "exists": "head", "info": "describe", "isfile": "head"}


def fast_read(mount: Names, method: str, path: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a method that reads one file, or return :data:`UNANSWERED`.

    Raises
    ------
    FileNotFoundError
        It is not there, in the wrapped filesystem's words.
    """
    if method not in _ASKS or args or kwargs or (name := _name(mount, path)) is None:
        return UNANSWERED
    return _answer(mount, method, name, getattr(mount.backend, _ASKS[method])(name.path))


async def fast_read_async(
    mount: Names, method: str, path: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """:func:`fast_read`, asynchronously."""
    if method not in _ASKS or args or kwargs or (name := _name(mount, path)) is None:
        return UNANSWERED
    return _answer(mount, method, name, await getattr(mount.backend, f"{_ASKS[method]}_async")(name.path))


def _name(mount: Names, path: Any) -> Name | None:
    """Return the name under a path, if the store may answer for the wrapped filesystem about it."""
    if mount._kind != "s3" or type(path) is not str or mount._is_a_version(path):
        return None
    name = mount.explain(path)
    # Not of one that it would read as another, by slashes or a version in it.
    if not name.guarded or mount.fs._strip_protocol(mount._own(path)) != name.path:
        return None
    store = mount.backend
    if not isinstance(store, Describes) or not store.answers_for(name.path) or _is_listed(mount, name.path):
        return None
    return name


def _is_listed(mount: Names, path: str) -> bool:
    """Whether a remembered listing says what is there."""
    if not mount.fs.dircache:
        return False
    try:
        return mount.fs._ls_from_cache(path) is not None
    except FileNotFoundError:
        return True


def _answer(mount: Names, method: str, name: Name, outcome: object) -> Any:
    if isinstance(outcome, Got):
        return outcome.data
    if isinstance(outcome, Described):
        return outcome.info
    if isinstance(outcome, Found):
        return True
    # What a format calls a file is no folder; another's pattern may match one, which only a listing shows.
    if isinstance(outcome, Absent) and name.format is not None and mount._is_evident(name):
        if _ASKS[method] == "head":
            return False
        raise FileNotFoundError(name.path)
    return UNANSWERED
