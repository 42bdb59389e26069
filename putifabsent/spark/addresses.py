"""Addresses as Spark's users say them."""

from __future__ import annotations

from putifabsent.errors import ConfigError

__all__ = ["address_of"]


def address_of(url: str) -> str:
    """Return an address as fsspec spells it.

    Parameters
    ----------
    url
        The same, or as Hadoop spells it (``file:/...``), or an absolute path.

    Raises
    ------
    ConfigError
        It is a relative path: each of Spark's processes has a folder of its own that it would be relative to.
    """
    scheme, colon, path = url.partition(":")
    if not colon:
        scheme, path = "file", url
    if scheme in ("file", "local", "piafile") and not path.startswith("/"):
        raise ConfigError(f"the path must be absolute, or an address, not {url!r}")
    return f"{scheme}://{path.removeprefix('//')}"
