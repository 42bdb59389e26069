"""Flink's settings by which a scheme is guarded: what ``putifabsent flink-conf`` prints.

Flink has no session that could be mounted, so its processes read what guards them from files: Hadoop's
``core-site.xml``, in ``HADOOP_CONF_DIR``, and Flink's own ``config.yaml``. See Flink's page "File Systems",
https://nightlies.apache.org/flink/flink-docs-stable/docs/deployment/filesystems/overview/.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import escape

from putifabsent.errors import ConfigError
from putifabsent.spark.settings import SESSION, WRITER, core_site

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["FlinkSettings", "settings"]


class FlinkSettings(NamedTuple):
    """What the files say."""

    site: Mapping[str, str]  # properties of ``core-site.xml``
    config: Mapping[str, str]  # entries of ``config.yaml``

    def site_as_xml(self) -> str:
        """Return all of ``core-site.xml``."""
        lines = (
            f"  <property><name>{escape(key)}</name><value>{escape(value)}</value></property>"
            for key, value in self.site.items()
        )
        return "\n".join(("<configuration>", *lines, "</configuration>"))


def settings(schemes: Iterable[str], address: str) -> FlinkSettings:
    """Return what guards schemes by a service at this address.

    The secret is not among it: Hadoop takes it from the environment of each JVM. A session and a writer are,
    those of one cluster: what its job manager begins of Hudi's, its task managers write. ``ConfigError``: a
    scheme is not known, Flink writes there by a class of its own, or the address is none of a service.
    """
    named = list(dict.fromkeys(schemes))
    if "file" in named:
        raise ConfigError(
            "Flink writes local files by a class of its own, which can't be guarded: name a store"
        )
    # For these Flink wants a plug-in of its own, and asks Hadoop only where that is allowed.
    config = {"fs.allowed-fallback-filesystems": ";".join(named)}
    own = {each: str(uuid.uuid4()) for each in (SESSION, WRITER)}
    return FlinkSettings({**core_site(named, address), **own}, config)
