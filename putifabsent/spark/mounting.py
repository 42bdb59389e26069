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
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

import fsspec
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkConf, SparkContext, util
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from putifabsent import __version__
from putifabsent.backends.registry_urls import ARBITER
from putifabsent.errors import ConfigError
from putifabsent.fsspec_plugin.options import this_writer
from putifabsent.spark.companion import Companion
from putifabsent.spark.settings import (
    ADDRESS,
    GUARDED,
    HUDI,
    SECRET,
    SESSION,
    SESSION_GUARD,
    WRAPPED,
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
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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


# --- the driver's JVM: what is read from it before a session is made, and what it is told

_BEHIND = "SPARK_DIST_CLASSPATH"

_LOCKS = {
    "Hudi": ("org.apache.hudi.common.lock.LockProvider", "org.putifabsent.hadoop.HudiLockProvider", ""),
    "Iceberg": (
        "org.apache.iceberg.LockManager",
        "org.putifabsent.hadoop.IcebergLockManager",
        "org.putifabsent.hadoop.IcebergLockManager",
    ),
    "Paimon": (
        "org.apache.paimon.catalog.CatalogLockFactory",
        "org.putifabsent.hadoop.PaimonLockFactory",
        "lock.type=putifabsent",
    ),
}
"""By format: what it calls a lock, the adapter's, which it makes by name, and what settings say that want it.

Every session wants Hudi's.
"""

_CLASSES = r"^fs\.(AbstractFileSystem\.)?[^.]+\.impl$"
# Here is the local filesystem, which takes files of no other scheme, and what all filesystems extend.
_OF_ALL = "org.apache.hadoop.fs"

_HUDI_STORAGE = "hoodie.storage.class"
_BY_HADOOP = "org.apache.hudi.storage.hadoop.HoodieHadoopStorage"


class Jvm:
    """A JVM that a session of these options can be made in, started as PySpark's builder would.

    Its methods, and what makes it, raise ``ConfigError`` where the JVM can't do what they say.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        # spark-submit has started one, and says where.
        self._was_here = SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ  # noqa: SLF001
        self._start()

    def _start(self) -> None:
        conf = SparkConf().setAll(list(self._options.items()))
        try:
            SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001
        except (PySparkRuntimeError, OSError) as error:
            raise ConfigError(
                f"the driver's JVM did not start ({error}): is there a Java 11 or later, 17 for PySpark 4, "
                "in JAVA_HOME or on the PATH?"
            ) from error
        self._jvm: Any = SparkContext._jvm  # noqa: SLF001

    @cached_property
    def spark(self) -> Any:
        """The settings that the session will have: its builder's options, and its context's.

        A context that is not there yet gets those of spark-defaults.conf.
        """
        running = SparkContext._active_spark_context  # noqa: SLF001
        conf = running._jsc.sc().getConf() if running else self._jvm.org.apache.spark.SparkConf()  # noqa: SLF001
        for key, value in self._options.items():
            conf.set(key, str(value))
        return conf

    @cached_property
    def hadoop(self) -> Any:
        """What it will tell Hadoop, core-site.xml and the rest of the class path included."""
        return self._jvm.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(self.spark)

    def load(self, jar: str) -> None:
        """Have it know the adapter: ``spark.jars`` is for who starts a JVM, and for executors.

        A format whose jar is on the JVM's own class path, as in images that keep it in ``SPARK_HOME/jars``,
        sees nothing of ``spark.jars``. Then a JVM that was started here is started again, with the adapter
        there.
        """
        self._add(jar)
        if self._blind() and not self._was_here:
            self._end()
            with _class_path(jar):
                self._start()
            self._add(jar)
        if blind := self._blind():
            raise ConfigError(
                f"{blind}'s jar is on the driver's own class path, as in SPARK_HOME/jars, from where "
                f"the adapter's is not seen: put that there, too, or say --driver-class-path {jar}"
            )

    def _add(self, jar: str) -> None:
        if self._class(GUARDED[0]) is None:
            try:
                self._loader().addURL(self._jvm.java.io.File(jar).toURI().toURL())
            except Py4JError as error:
                raise ConfigError(
                    f"the driver's JVM can't be given {jar}: start it with spark.jars={jar}"
                ) from error
            if self._class(GUARDED[0]) is None:
                java = self._jvm.java.lang.System.getProperty("java.version")
                raise ConfigError(
                    f"the driver's JVM (Java {java}) does not load {jar}: it wants Java 11 or later"
                )

    def _blind(self) -> str | None:
        """Return the format that wants the adapter's lock and can't see it; None: there is none."""
        settings = self.spark.toDebugString()
        for name, (theirs, ours, wanting) in _LOCKS.items():
            found = self._class(theirs)
            if found is None:
                continue
            if wanting in settings and self._class(ours, found.getClassLoader()) is None:
                return name
        return None

    def _end(self) -> None:
        del self.spark  # it is of that JVM
        gateway = SparkContext._gateway  # noqa: SLF001
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
        gateway.shutdown()
        gateway.proc.stdin.close()  # which it ends by
        gateway.proc.wait()

    def forget_filesystems(self) -> None:
        """Close what was opened without the adapter, or for another service: nobody must meet it again."""
        self._jvm.org.apache.hadoop.fs.FileSystem.closeAll()

    def wrapped(self, scheme: str) -> str:
        """Return the class of filesystem that a scheme has on the class path."""
        try:
            found = self._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, self.hadoop)
        except Py4JJavaError as error:
            what = error.java_exception.getMessage()
            hadoop = self._jvm.org.apache.hadoop.util.VersionInfo.getVersion()
            raise ConfigError(
                f"no filesystem for {scheme}:// is on the class path ({what}): "
                f"for s3a, add spark.jars.packages=org.apache.hadoop:hadoop-aws:{hadoop}"
            ) from error
        return str(found.getName())

    def twins(self, schemes: Iterable[str], hadoop: Any = None) -> dict[str, str]:
        """Return other ways to the stores of guarded schemes that are not: their schemes and classes.

        By default it is asked of the configuration that the session will have.
        """
        named, hadoop = set(schemes), hadoop or self.hadoop
        found = {}
        for twin in twins_of(named):
            try:
                files = self._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(twin, hadoop)
            except Py4JJavaError:
                continue  # there is none, or not its jar
            if files.getName() not in GUARDED:
                found[twin] = str(files.getName())
        # Any other name may be given to the same class, or to one beside it that `FileContext` goes by.
        wrapped = {store_of(each).wrapped.rpartition(".")[0] for each in named} - {_OF_ALL}
        wrapped |= {hadoop.get(key) for each in named for key in (f"fs.{each}.impl", f"{WRAPPED}{each}")}
        for key, name in dict(hadoop.getValByRegex(_CLASSES)).items():
            scheme = key.split(".")[-2]
            if (
                scheme not in {*named, *found}
                and name not in GUARDED
                and not wrapped.isdisjoint(self._kinds(name))
            ):
                found[scheme] = name
        return found

    def _kinds(self, name: str) -> Iterator[str]:
        """Yield the names of a class and of those that it extends, and of their packages."""
        kind = self._class(name)
        while kind is not None:
            yield kind.getName()
            yield kind.getName().rpartition(".")[0]
            kind = kind.getSuperclass()

    def goes_round(self, schemes: Iterable[str]) -> str | None:
        """Say what writes to guarded schemes' stores by a client of its own; None: nothing that is known."""
        names = {*schemes, *twins_of(schemes)} - {"file"}
        loader = self._class("org.apache.paimon.fs.FileIOLoader")
        plugins = loader and self._jvm.java.util.ServiceLoader.load(loader, self._loader()).iterator()
        while plugins and plugins.hasNext():
            plugin = plugins.next()
            if (scheme := plugin.getScheme()) in names:
                name = plugin.getClass().getName()
                return (
                    f"Paimon writes to {scheme}:// by {name}, which asks no filesystem of Hadoop's: "
                    "take its jar from the class path, and Paimon goes by the adapter"
                )
        storage = self.hadoop.get(_HUDI_STORAGE)
        if storage not in (None, _BY_HADOOP):
            return f"Hudi writes by {storage}: leave {_HUDI_STORAGE} out, and it goes by the adapter"
        return None

    def opened(self, hadoop: Any) -> str | None:
        """Say which guarded filesystem was opened without the guard, in the session of a configuration.

        None: none was. ``ConfigError``: the adapter is an older one, as an image may have it, and does not
        know.
        """
        try:
            self._jvm.org.putifabsent.hadoop.SessionGuard.checkOpened(hadoop)
        except Py4JJavaError as error:
            return str(error.java_exception.getMessage())
        except Py4JNetworkError:
            raise
        except (Py4JError, TypeError) as error:  # a method, or the class, is not there
            raise ConfigError(
                "the adapter on the driver's class path is older than this package: put the jar there that "
                f"putifabsent {__version__} has (`putifabsent doctor` names it)"
            ) from error
        return None

    def mountings(self, scheme: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the service's mounts of a scheme, as :meth:`Store.mountings` does."""
        store = store_of(scheme)
        # What a credential provider holds is there, and no plain setting says so.
        found = dict.fromkeys(self._aliases(), "")
        for prefix in store.prefixes:
            props = dict(self.hadoop.getPropsWithPrefix(prefix))
            found |= {f"{prefix}{key}": value for key, value in props.items()}
        return store.mountings(scheme, found, self._password, given)

    def addresses(self) -> tuple[str, str]:
        """Return where the service listens, and what executors call that."""
        if self.spark.get("spark.master", "local").partition("[")[0] == "local":
            return "127.0.0.1", "127.0.0.1"
        here = self._jvm.org.apache.spark.util.Utils.localHostNameForURI()
        host = self.spark.get("spark.driver.host", here)
        return self.spark.get("spark.driver.bindAddress", host).strip("[]"), host

    def say_to_hudi(self) -> None:
        """Have Hudi's tables take turns, where its defaults file says nothing else; a write's options may."""
        if self._class("org.apache.hudi.common.config.DFSPropertiesConfiguration") is not None:
            defaults = self._jvm.org.apache.hudi.common.config.DFSPropertiesConfiguration
            properties = defaults.getGlobalProps()
            for key, value in HUDI.items():
                if properties.getProperty(key) is None:
                    defaults.addToGlobalProps(key, value)

    def _password(self, key: str) -> str | None:
        chars = self.hadoop.getPassword(key)
        return None if chars is None else "".join(chars)

    def _aliases(self) -> list[str]:
        factory = self._jvm.org.apache.hadoop.security.alias.CredentialProviderFactory
        return [alias for each in factory.getProviders(self.hadoop) for alias in each.getAliases()]

    def _loader(self) -> Any:
        return self._jvm.java.lang.Thread.currentThread().getContextClassLoader()

    def _class(self, name: str, loader: Any = None) -> Any:
        try:
            return self._jvm.java.lang.Class.forName(name, False, loader or self._loader())  # noqa: FBT003 - Java's own
        except Py4JJavaError:
            return None


@contextmanager
def _class_path(jar: str) -> Iterator[None]:
    """Have Spark's launcher put a jar behind all else on the class path of a JVM that it starts."""
    before = os.environ.get(_BEHIND)
    os.environ[_BEHIND] = jar if before is None else f"{before}{os.pathsep}{jar}"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_BEHIND]
        else:
            os.environ[_BEHIND] = before
