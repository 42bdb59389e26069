"""What the table formats call their files: one grammar a file. :mod:`putifabsent.shim.policy` asks them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def check_shape(
    what: str, found: Any, wanted: Mapping[str, type], optional: Mapping[str, type] | None = None
) -> None:
    """Raise ``ValueError`` unless ``found`` is an object with the keys ``wanted``, of these types.

    Those that are ``optional`` may be missing, or null.
    """
    if not isinstance(found, dict):
        raise ValueError(f"{what} is no object, but {found!r:.40}")  # noqa: TRY004 - what is read is wrong
    for key, kind in {**wanted, **(optional or {})}.items():
        value = found.get(key)
        if not isinstance(value, kind) and (key in wanted or value is not None):
            raise ValueError(f"{key} of {what} is {value!r:.40}")
