"""``mount``: a session's builder, and what is done before the session is made.

The settings of the stores come from the session's own, wherever they were set: so the JVM is started first,
as the builder would do, and queried. Only then the service is started, and its secret is made and set: what a
JVM is started with stands in every list of processes.
"""

from __future__ import annotations

import json
import os
import secrets
import uuid
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

import fsspec
from pyspark import SparkConf, SparkContext, util
from pyspark.sql import SparkSession

from putifabsent.backends.registry_urls import ARBITER
from putifabsent.errors import ConfigError
from putifabsent.fsspec_plugin.options import this_writer
from putifabsent.spark.companion import Companion
from putifabsent.spark.jvm import Jvm
from putifabsent.spark.settings import (
    ADDRESS,
    SECRET,
    SESSION,
    SESSION_GUARD,
    WRITER,
    adapter_of,
    host_of,
    jar,
    of_spark,
    patience,
    refuse_catalogs,
    scheme_settings,
    service_settings,
    with_one_more,
)
from putifabsent.spark.stores import SCHEMES, store_of, twins_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_WRITER = "PUTIFABSENT_WRITER"
_REDACTION = "spark.redaction.regex"
_REDACTED = "(?i)secret|password|token|access[.]?key"
_SECRETS = r"FSSPEC_|putifabsent\.secret|storage_options"
_CONNECT = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
_CLIENT = (
    "a Spark Connect client can't mount, for its server writes: run `putifabsent serve`, "
    "and start the server with the lines of `putifabsent spark-conf`"
)
_companion: Companion | None = None
_mounted: dict[str, dict[str, Any]] = {}  # what the running session was mounted with, by this module
_configured: dict[str, dict[str, Any]] = {}  # what fsspec's configuration had for each protocol before that


def mount(
    builder: SparkSession.Builder,
    scheme: str = "s3a",
    *,
    service: str | Mapping[str, Any] | None = None,
    **options: Any,
) -> SparkSession.Builder:
    """Guard a scheme in the session that a builder makes, for all that commits there.

    ``getOrCreate`` starts the coordination service, which ends with this process, and puts the adapter before
    the scheme's own filesystem, on the driver and on the executors. Endpoint, credentials and region are
    those that the session has for the scheme, a bucket's own too. Hudi's tables get a lock provider and
    optimistic concurrency control, unless the user says something else. In Python, driver and executors, the
    scheme's guarded filesystem (``pias3``, ...) has the same options and the same writer.

    Parameters
    ----------
    builder
        ``SparkSession.builder``, or what another ``mount`` has returned, for several schemes.
    scheme
        ``s3a``, ``gs``, ``abfs``, ``abfss`` or ``file``. Other schemes of the session that lead to the same
        stores (``s3``, ``s3n``, ``abfs`` beside ``abfss``) are guarded as well, or refused (``wasb``).
    service
        Settings of the service beside its mounts and its secret: ``host``, ``port``, ``certificate`` and
        ``key`` for TLS, ``largest_body``, ... By default it listens at any free port: of the loopback address
        where all tasks run in the driver (``local[*]``), else of ``spark.driver.bindAddress``, or the
        driver's address. Or the address of a service that runs already, whose secret is in
        ``PUTIFABSENT_SERVICE_SECRET``.
    options
        Of the guarded filesystem: ``arbiter``, ``formats``, ``guard``, ``salt``, ``strict``, ``deadline``,
        ``writer``, and what the wrapped one takes. They come before what the session says.

    Returns
    -------
    SparkSession.Builder
        To go on with, in place of the one given.

    Raises
    ------
    ConfigError
        Of ``getOrCreate``, too: a scheme or an option is not known, the session runs already without the
        adapter, the scheme has no filesystem on the class path, the service does not start.
    """
    store_of(scheme)
    mounted = builder if isinstance(builder, Mounted) else Mounted(builder)
    mounted.add(scheme, service, options)
    return mounted


class Mounted(SparkSession.Builder):
    """A builder that goes on with another's options, and mounts before it makes a session."""

    def __init__(self, builder: SparkSession.Builder) -> None:
        super().__init__()
        if not isinstance(builder, SparkSession.Builder):  # Connect has a class of its own
            raise ConfigError(_CLIENT)
        self._options: dict[str, Any] = dict(builder._options)  # noqa: SLF001 - there is no other way to ask
        self._schemes: dict[str, dict[str, Any]] = {}
        self._service: str | dict[str, Any] = {}

    def add(self, scheme: str, service: str | Mapping[str, Any] | None, options: Mapping[str, Any]) -> None:
        """Mount one more scheme."""
        if isinstance(service, str):
            self._service = service
        elif service is not None:
            self._service = {**({} if isinstance(self._service, str) else self._service), **service}
        self._schemes[scheme] = dict(options)
        if isinstance(self._service, str) and any(self._schemes.values()):
            raise ConfigError("a service that runs already has its own options: don't give mount() any")

    def getOrCreate(self) -> SparkSession:  # noqa: N802 - PySpark's word
        """Return the session, mounted."""
        if _connects(self._options):
            raise ConfigError(_CLIENT)
        if key := next((key for key in self._options if key.startswith("fs.")), None):
            raise ConfigError(
                f"{key} would hold for this session, past the guard, and not for its service: "
                f"say spark.hadoop.{key}"
            )
        # PySpark's own, of all builders: whoever makes a session meanwhile would make it without the adapter.
        with self._lock:
            running = SparkContext._active_spark_context  # noqa: SLF001
            jvm = Jvm(self._options)
            refuse_catalogs(dict(SparkConf(_jconf=jvm.spark).getAll()), self._schemes)
            if running is None:
                # By Spark's settings: the session's own options are in logs, and in the next JVM's arguments.
                settings = {**self._options, **self._mount(jvm)}
                SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))
            else:
                jvm.say_to_hudi()
                self._check(running, jvm)
            session = super().getOrCreate()
            self._check(session.sparkContext, jvm)
            if hasattr(session, "dataSource"):  # PySpark 4
                from putifabsent.spark import source, timelines

                source.register(session)
                timelines.register(session)
            return session

    def create(self) -> NoReturn:
        """Refuse: Spark Connect's clients are made so."""
        raise ConfigError(f"say getOrCreate(): {_CLIENT}")

    def _check(self, context: SparkContext, jvm: Jvm) -> None:
        """Refuse a session that runs without the adapter, or with other options."""
        hadoop = context._jsc.hadoopConfiguration()  # noqa: SLF001
        if not _is_mounted(hadoop, self._schemes):
            roots = " and ".join(f"{scheme}://" for scheme in self._schemes)
            raise ConfigError(
                f"a Spark session runs already that does not guard {roots}, and has opened its filesystems: "
                "stop it before you mount, or start it with the lines of `putifabsent spark-conf`"
            )
        for twin, files in jvm.twins(self._schemes, hadoop).items():
            refusing = " and ".join(f"{key}={value}" for key, value in of_spark(adapter_of(twin)).items())
            raise ConfigError(
                f"{twin}:// leads to the same stores by {files}, and is not guarded: mount it, or refuse "
                f"it where the session is configured, by {refusing} alone"
            )
        if way := jvm.goes_round(self._schemes) or jvm.opened(hadoop):
            raise ConfigError(way)
        self._check_options(hadoop.get(ADDRESS))

    def _check_options(self, address: str) -> None:
        """Refuse another service, or options, for what is guarded already, unless it is with these."""
        if isinstance(self._service, str) and _services(self._service) != _services(address):
            raise ConfigError(
                f"the session's own settings guard by the service at {address}, not by {self._service}: "
                f"change {ADDRESS} there, or leave service= out"
            )
        for scheme, options in self._schemes.items():
            if options and options != _mounted.get(scheme):
                raise ConfigError(
                    f"{scheme}:// is guarded already, with other options than these: "
                    "they are its service's to say, or those of the mount() that made the session"
                )

    def _mount(self, jvm: Jvm) -> dict[str, str]:
        """Begin; return the session's settings."""
        global _mounted  # noqa: PLW0603 - one a process, as there is one SparkContext
        _mounted = {}
        path = jar()
        jvm.load(path)
        more = {"spark.jars": path, "spark.sql.extensions": SESSION_GUARD}
        settings = {key: with_one_more(jvm.spark.get(key, ""), one) for key, one in more.items()}
        writers = (*(each.get("writer") for each in self._schemes.values()), jvm.hadoop.get(WRITER))
        writer = next(filter(None, writers), None) or this_writer()
        # A session that spark-defaults.conf names would be that of all who read it.
        hadoop = {SESSION: str(uuid.uuid4()), WRITER: writer}
        if _is_mounted(jvm.hadoop, self._schemes):
            self._check_options(jvm.hadoop.get(ADDRESS))
        else:
            schemes, files = dict(self._schemes), jvm.twins(self._schemes)
            known = twins_of(self._schemes)
            for twin in {**known, **files}:
                if twin in known and twin in SCHEMES and files.get(twin) == SCHEMES[twin].wrapped:
                    schemes[twin] = self._schemes[known[twin]]
                else:  # also what has no filesystem yet
                    hadoop |= adapter_of(twin)
            for scheme in schemes:
                hadoop |= scheme_settings(scheme, jvm.wrapped(scheme))
            if isinstance(self._service, str):
                secret = os.environ.get(SECRET, "")
                hadoop |= service_settings(self._service, secret)
                if not secret:
                    raise ConfigError(f"{SECRET} is not set: {self._service} wants its secret")
            else:
                settings |= self._serve(jvm, self._service, schemes)
            settings[_REDACTION] = f"{jvm.spark.get(_REDACTION, _REDACTED)}|{_SECRETS}"
            os.environ[_WRITER] = settings[f"spark.executorEnv.{_WRITER}"] = writer
            _mounted = {scheme: dict(options) for scheme, options in self._schemes.items()}
        # Its start opens local files.
        jvm.say_to_hudi()
        # The last step: looking up a password may have opened one.
        jvm.forget_filesystems()
        return settings | of_spark(hadoop)

    def _serve(
        self, jvm: Jvm, settings: Mapping[str, Any], schemes: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, str]:
        """Start the service, in place of one that an earlier session had."""
        global _companion  # noqa: PLW0603 - one a process, as there is one SparkContext
        by_default = {"arbiter": os.environ[ARBITER]} if os.environ.get(ARBITER) else {}
        given = {scheme: {**by_default, **options} for scheme, options in schemes.items()}
        mountings = {scheme: jvm.mountings(scheme, options) for scheme, options in given.items()}
        secret = secrets.token_urlsafe(32)
        bound, known_as = jvm.addresses()
        if _companion is not None:
            _companion.end()
        mounts = list(chain(*mountings.values()))
        _companion = Companion({"host": bound, **settings, "secret": secret, "mounts": mounts})
        scheme, _, listening = _companion.address.partition("://")
        host = host_of(str(settings.get("host", known_as)), known_as)
        hadoop = service_settings(f"{scheme}://{host}:{listening.rpartition(':')[2]}", secret)
        if deadlines := [each["deadline"] for each in given.values() if "deadline" in each]:
            hadoop |= patience(max(deadlines))
        return of_spark(hadoop) | _tell_python(mountings)


def _tell_python(mountings: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, str]:
    """Have fsspec take these options here, and return what has it take them in the executors' Python."""
    # What an earlier session's stores were reached by is no business of this one's.
    fsspec.config.conf.update(_configured)
    _configured.clear()
    settings = {}
    for scheme, (whole, *own) in mountings.items():
        protocol = store_of(scheme).protocol
        # A lone account is the one that is meant; what a lone bucket says is no other's.
        options = (own[0] if protocol == "piaaz" and len(own) == 1 else whole)["options"]
        before = _configured.setdefault(protocol, fsspec.config.conf.get(protocol, {}))
        fsspec.config.conf[protocol] = {**before, **options}
        settings[f"spark.executorEnv.FSSPEC_{protocol.upper()}"] = json.dumps(options)
    return settings


def _connects(options: Mapping[str, Any]) -> bool:
    """Whether PySpark's builder makes a client of Spark Connect."""
    if "spark.remote" in options or any(each in os.environ for each in _CONNECT):
        return True
    mode = str(options.get("spark.api.mode", os.environ.get("SPARK_API_MODE", ""))).lower()
    if mode not in ("classic", "connect") and hasattr(util, "default_api_mode"):  # PySpark 4
        mode = util.default_api_mode()
    return mode == "connect"


def _services(addresses: str) -> list[str]:
    return [each.strip().rstrip("/") for each in addresses.split(",")]


def _is_mounted(hadoop: Any, schemes: Mapping[str, Any]) -> bool:
    """Whether a configuration, spark-defaults.conf's perhaps, guards all these schemes already."""
    wanted = [pair for scheme in schemes for pair in adapter_of(scheme).items()]
    return hadoop.get(ADDRESS) is not None and all(hadoop.get(key) == value for key, value in wanted)
