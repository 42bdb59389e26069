"""The driver's JVM: what is read from it before a session is made, and which settings it gets."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError

from putifabsent import __version__
from putifabsent.errors import ConfigError
from putifabsent.spark.settings import GUARDED, HUDI, WRAPPED
from putifabsent.spark.stores import store_of, twins_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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
