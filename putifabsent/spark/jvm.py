"""The driver's JVM: what it is asked before a session is made, and which settings it gets."""

from __future__ import annotations

from collections import ChainMap
from functools import cached_property
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError

from putifabsent.errors import ConfigError
from putifabsent.spark.settings import GUARDED, HUDI
from putifabsent.spark.stores import Settings, store_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Jvm"]


class Jvm:
    """A JVM that a session can be made in, started as PySpark's builder would.

    Parameters
    ----------
    options
        The session's, of its builder.

    Raises
    ------
    ConfigError
        It does not start.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        try:
            SparkContext._ensure_initialized(conf=SparkConf().setAll(list(options.items())))  # noqa: SLF001
        except (PySparkRuntimeError, OSError) as error:
            raise ConfigError(
                f"the driver's JVM did not start ({error}): is there a Java 11 or later, 17 for PySpark 4, "
                "in JAVA_HOME or on the PATH?"
            ) from error
        self._jvm: Any = SparkContext._jvm  # noqa: SLF001
        self._options = options

    @cached_property
    def spark(self) -> Any:
        """The settings that the session will have: its builder's options, and spark-defaults.conf."""
        conf = self._jvm.org.apache.spark.SparkConf()
        for key, value in self._options.items():
            conf.set(key, str(value))
        return conf

    @cached_property
    def hadoop(self) -> Any:
        """What it will tell Hadoop, core-site.xml and the rest of the class path included."""
        return self._jvm.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(self.spark)

    def load(self, jar: str) -> None:
        """Have it know the adapter: ``spark.jars`` is for who starts a JVM, and for executors."""
        if not self._knows(GUARDED[0]):
            try:
                self._loader().addURL(self._jvm.java.io.File(jar).toURI().toURL())
            except Py4JError as error:
                raise ConfigError(
                    f"the driver's JVM can't be given {jar}: start it with spark.jars={jar}"
                ) from error
            if not self._knows(GUARDED[0]):
                java = self._jvm.java.lang.System.getProperty("java.version")
                raise ConfigError(
                    f"the driver's JVM (Java {java}) does not load {jar}: it wants Java 11 or later"
                )

    def forget_filesystems(self) -> None:
        """Close what was opened without the adapter, or for another service: nobody must meet it again."""
        self._jvm.org.apache.hadoop.fs.FileSystem.closeAll()

    def wrapped(self, scheme: str) -> str:
        """Return the class of filesystem that a scheme has.

        Raises
        ------
        ConfigError
            None is on the class path.
        """
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

    def mountings(self, scheme: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the service's mounts of a scheme: all, and each bucket or account with settings of its own.

        Parameters
        ----------
        scheme
            ``s3a``.
        given
            Options that come before Hadoop's own.
        """
        store = store_of(scheme)
        found = dict(self.hadoop.getPropsWithPrefix(store.before))

        def options_of(name: str | None) -> dict[str, Any]:
            def spelled(key: str) -> str:
                return key if name is None else store.own.format(name=name, key=key)

            def password(key: str) -> str | None:
                return self._password(store.before + spelled(key)) or self._password(store.before + key)

            own = {key: found[spelled(key)] for key in store.keys if spelled(key) in found}
            return {**store.options(Settings(ChainMap(own, found), password), given), **given}

        prefixes = {f"{scheme}://{store.authority.format(name=each)}/": each for each in store.named(found)}
        return [
            {"prefix": prefix, "options": options_of(name)}
            for prefix, name in {f"{scheme}:": None, **prefixes}.items()
        ]

    def addresses(self) -> tuple[str, str]:
        """Return where the service listens, and what executors call that."""
        if self.spark.get("spark.master", "local").partition("[")[0] == "local":
            return "127.0.0.1", "127.0.0.1"
        here = self._jvm.org.apache.spark.util.Utils.localHostNameForURI()
        host = self.spark.get("spark.driver.host", here)
        return self.spark.get("spark.driver.bindAddress", host).strip("[]"), host

    def say_to_hudi(self) -> None:
        """Have Hudi's tables take turns, where its defaults file says nothing else; a write's options may."""
        if self._knows("org.apache.hudi.common.config.DFSPropertiesConfiguration"):
            defaults = self._jvm.org.apache.hudi.common.config.DFSPropertiesConfiguration
            properties = defaults.getGlobalProps()
            for key, value in HUDI.items():
                if properties.getProperty(key) is None:
                    defaults.addToGlobalProps(key, value)

    def _password(self, key: str) -> str | None:
        chars = self.hadoop.getPassword(key)
        return None if chars is None else "".join(chars)

    def _loader(self) -> Any:
        return self._jvm.java.lang.Thread.currentThread().getContextClassLoader()

    def _knows(self, name: str) -> bool:
        try:
            self._jvm.java.lang.Class.forName(name, False, self._loader())  # noqa: FBT003 - Java's own
        except Py4JJavaError:
            return False
        return True
