"""What guards a scheme, as ``mount`` and ``spark-conf`` tell Hadoop and Spark; and the adapter's jar."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

from putifabsent.errors import ConfigError
from putifabsent.spark.stores import store_of, twins_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_JAR = Path(__file__).with_name("putifabsent-hadoop.jar")

HADOOP = "spark.hadoop."  # what Hadoop's keys begin with among Spark's
SECRET = "PUTIFABSENT_SERVICE_SECRET"  # noqa: S105 - a variable's name
"""The environment variable that has the secret of a service that runs by itself."""

GUARDED = ("org.putifabsent.hadoop.GuardedFileSystem", "org.putifabsent.hadoop.GuardedFs")
"""The adapter, as ``FileSystem`` and for ``FileContext``."""

SESSION_GUARD = "org.putifabsent.hadoop.SessionGuard"
"""The adapter's extension of Spark's sessions: it notices settings that are changed while one runs."""

# Hadoop insists on its own class for local files: these are of it, and wrap nothing.
_LOCAL = ("org.putifabsent.hadoop.GuardedLocalFileSystem", "org.putifabsent.hadoop.GuardedLocalFs")

ADDRESS = "fs.putifabsent.address"
WRAPPED = "fs.putifabsent.wrapped."  # before a scheme: the key of the class that the adapter wraps
SESSION = "fs.putifabsent.session"
WRITER = "fs.putifabsent.writer"  # who calls the service: the driver and its executors alike

# What an address says beside would be left out of each request, and the secret be sent to who answers there.
_SERVICE = re.compile(r"https?://[^\s/?#@]+/?")

_ANYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - what users may say

_OF_A_CATALOG = re.compile(r"spark\.sql\.catalog\..+?\.hadoop\.(?P<key>.+)")

# Seconds: what the JVM adds to the service's own deadline.
_MARGIN = 30

HUDI = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": "org.putifabsent.hadoop.HudiLockProvider",
    # A writer that seems to be gone may be a slow one: only who has waited for its heartbeat rolls it back.
    "hoodie.clean.failed.writes.policy": "LAZY",
    # Drivers run each other's table services. A commit is complete by then: who hears that it failed would
    # write its rows again.
    "hoodie.write.can.ignore.post.commit.failures": "true",
}
"""By default for every Hudi table: several drivers then keep each other's commits apart."""


def scheme_settings(scheme: str, wrapped: str) -> dict[str, str]:
    """Return what puts the adapter before the class of a scheme's own filesystem, if the scheme is known."""
    store_of(scheme)
    return adapter_of(scheme) | ({} if scheme == "file" else {f"{WRAPPED}{scheme}": wrapped})


def adapter_of(scheme: str) -> dict[str, str]:
    """Return what makes a scheme the adapter's, for ``FileContext`` as well.

    Where it does not say what is wrapped, the adapter refuses the scheme.
    """
    files, context = _LOCAL if scheme == "file" else GUARDED
    return {f"fs.{scheme}.impl": files, f"fs.AbstractFileSystem.{scheme}.impl": context}


def service_settings(address: str, secret: str) -> dict[str, str]:
    """Return what says where the service is.

    ``ConfigError``: the address, or one of several with commas between, is none, or says more than that.
    """
    for each in address.split(","):
        if not _SERVICE.fullmatch(each.strip()):
            # Before an @ stands a password, which may have a comma.
            shown = address.rpartition("@")[2] if "@" in address else each.strip()
            raise ConfigError(
                f"{ADDRESS}: {shown} is no address of a service: say http://HOST:PORT, without a path, a "
                "query, a fragment or user info; several such, with commas between"
            )
    return {ADDRESS: address, "fs.putifabsent.secret": secret}


def host_of(listening: str, known_as: str) -> str:
    """Return the host at which executors reach a service that listens there.

    ``known_as`` is what they call this machine, for a service that listens at all its addresses.
    """
    host = listening.strip("[]")
    host = known_as.strip("[]") if host in _ANYWHERE else host
    return f"[{host}]" if ":" in host else host


def refuse_catalogs(keys: Iterable[str], schemes: Iterable[str]) -> None:
    """Refuse what a catalog alone tells Hadoop, of these guarded schemes or of a filesystem's class.

    All others then get the filesystem that it has opened.
    """
    named = list(schemes)
    families = (
        "fs.putifabsent.",
        *(prefix for scheme in named for prefix in store_of(scheme).prefixes),
        *(f"fs.{scheme}." for scheme in (*named, *twins_of(named))),
    )
    for each in filter(None, map(_OF_A_CATALOG.fullmatch, keys)):
        if each["key"].startswith(families) or each["key"].endswith(".impl"):
            raise ConfigError(
                f"{each[0]} would hold for all who open that store after its catalog, past the guard: "
                f"say {HADOOP}{each['key']}"
            )


def patience(deadline: float) -> dict[str, str]:
    """Return how long the JVM waits for a service whose creations may take so many seconds."""
    return {"fs.putifabsent.deadline": f"{math.ceil(deadline) + _MARGIN}s"}


def of_spark(hadoop: Mapping[str, str]) -> dict[str, str]:
    """Return Hadoop's settings as Spark takes them."""
    return {f"{HADOOP}{key}": value for key, value in hadoop.items()}


def defaults(schemes: Iterable[str], address: str, jar: str) -> dict[str, str]:
    """Return what spark-defaults.conf says for schemes that a service at this address guards.

    The secret is not among it: Hadoop takes it from the environment of each JVM. ``ConfigError``: a scheme is
    not known, or the address is none of a service.
    """
    options = {"spark.jars": jar}
    named = list(schemes)
    if "file" in named:
        # Spark opens local files before it takes spark.jars.
        options["spark.driver.extraClassPath"] = jar
    return options | of_spark(core_site(named, address))


def core_site(schemes: Iterable[str], address: str) -> dict[str, str]:
    """Return what core-site.xml says for such schemes: the secret comes from the environment here, too."""
    named = list(schemes)
    options: dict[str, str] = {}
    for scheme in named:
        options |= scheme_settings(scheme, store_of(scheme).wrapped)
    # Hadoop has all of Azure's schemes by itself.
    for twin in twins_of(each for each in named if store_of(each).protocol == "piaaz"):
        options |= adapter_of(twin)
    return options | service_settings(address, f"${{env.{SECRET}}}")


def jar() -> str:
    """Return the path of the adapter's jar, which the wheel brings along.

    ``ConfigError``: it is not there; in a checkout, ``make jar`` builds it.
    """
    if not _JAR.is_file():
        raise ConfigError(
            f"the adapter's jar is not at {_JAR}: reinstall putifabsent, or `make jar` in a checkout"
        )
    return str(_JAR)


def with_one_more(listed: str, one: str) -> str:
    """Return a list, as ``spark.jars`` and ``spark.sql.extensions`` are, with one more."""
    there = (each.strip() for each in listed.split(","))
    return ",".join(dict.fromkeys([*filter(None, there), one]))
