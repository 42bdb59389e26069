"""A Flink cluster on loopback: a job manager and task managers, started by Flink's own scripts."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.error import HTTPError

from putifabsent.flink import FlinkSettings, settings
from putifabsent.spark import jar as jar_of_adapter
from tests.faults.failover import until
from tests.servers import leash
from tests.servers.process import NotStartedError, free_port
from tests.servers.s3 import s3a_settings
from tests.service.callers import SECRET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from typing_extensions import Self

    from tests.servers import BucketServer

__all__ = ["GUARDED", "ROOT", "STOCK", "Cluster", "Release", "guarding", "mounts"]

GUARDED, STOCK = ("s3a", "s3"), "s3n"
"""Schemes of one store, the guarded ones and one that is not."""

ROOT = Path(__file__).parents[2]
# What a cluster has in lib/, and what it finds by HADOOP_CLASSPATH; the rest are plug-ins.
_IN_LIB = ("paimon-flink", "iceberg-flink", "hudi-flink")
_OF_HUDI = re.compile(r"hudi-flink(\d)\.(\d+)-bundle")
_HADOOP = ("aws-java", "commons-logging", "hadoop-")
_STARTS_WITHIN = 120
_ENDS_WITHIN = 240
_STOCK_ENDS_WITHIN = 60
_ENDED = {"CANCELED", "FAILED", "FINISHED", "SUSPENDED"}


def mounts(store: BucketServer, **more: Any) -> dict[str, Any]:
    """Return what a service is told that guards two schemes of a store."""
    options = {**store.storage_options, "arbiter": "native", "strict": True, "inspect": "commits", **more}
    return {
        "secret": SECRET,
        "mounts": [{"prefix": f"{scheme}:", "options": options} for scheme in GUARDED],
    }


def guarding(store: BucketServer, *services: str) -> FlinkSettings:
    """Return what guards these schemes in a cluster; a third leads to the store past the guard."""
    guarded = settings(GUARDED, ",".join(services))
    client = {
        **s3a_settings(store),
        f"fs.{STOCK}.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        # What a test holds up has not failed before the last job of a busy machine is there.
        "fs.putifabsent.deadline": "300s",
    }
    config = {**guarded.config, "fs.allowed-fallback-filesystems": ";".join((*GUARDED, STOCK))}
    return FlinkSettings({**guarded.site, **client}, config)


class Release(NamedTuple):
    """A release of Flink.

    Attributes
    ----------
    python
        The interpreter of a PyFlink.
    distribution
        The folder with Flink's ``bin``, ``lib`` and ``conf``.
    jars
        The folder of what Maven has for it: Hadoop, among others.
    formats
        The jars of formats.
    resumes_by
        The setting that names the savepoint, or the checkpoint, from which a job goes on, as programs say it.
    """

    python: Path
    distribution: Path
    jars: Path
    formats: tuple[Path, ...]
    resumes_by: str = "execution__state_recovery__path"

    @classmethod
    def of(cls, name: str) -> Release:
        """Return the release that the Makefile calls so: ``flink120``. PyFlink brings the distribution."""
        environment, jars = ROOT / f".venv-{name}", ROOT / "tools" / name / "target" / "jars"
        (distribution,) = (environment / "lib").glob("python*/site-packages/pyflink")
        return cls(environment / "bin" / "python", distribution, jars, _formats_in(jars))

    @classmethod
    def of_hudi(cls, bundle: str | None) -> Release:
        """Return the one that a bundle of Hudi's is for.

        Without one it is Flink 1.17, the newest that Maven has a bundle for; for its own PyFlink, Python is
        too new.
        """
        if bundle:
            jar = Path(bundle).resolve(strict=True)
            named = _OF_HUDI.match(jar.name)
            assert named, f"{jar.name} does not say which Flink it is for"
            return cls.of("flink{}{}".format(*named.groups()))._replace(formats=(jar,))
        made = ROOT / "tools" / "flink117" / "target"
        return cls.of("flink120")._replace(
            distribution=made / "flink",
            formats=_formats_in(made / "jars"),
            resumes_by="execution__savepoint__path",
        )


def _formats_in(folder: Path) -> tuple[Path, ...]:
    return tuple(jar for jar in folder.glob("*.jar") if jar.name.startswith(_IN_LIB))


class Manager(NamedTuple):
    """A job manager or a task manager: it ends with the test that has started it.

    Attributes
    ----------
    leash
        What holds it.
    pid
        Its own process.
    """

    leash: subprocess.Popen[bytes]
    pid: int

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, unless it has ended, and return when it is gone."""
        if self.leash.poll() is None:
            self.signal(signal.SIGKILL)
        self.leash.communicate()


class Cluster:
    """One job manager and some task managers, each a process of its own that a test may kill.

    Parameters
    ----------
    release
        Which Flink.
    folder
        Where it has its home, settings, logs and checkpoints.
    told
        What goes into ``core-site.xml``, and into ``config.yaml`` beside what every cluster has.
    libraries, plugins
        More jars that it has in ``lib/``, and what it has in ``plugins/``.
    hadoop
        Whether it has Hadoop.
    """

    def __init__(
        self,
        release: Release,
        folder: Path,
        told: FlinkSettings,
        *,
        libraries: Iterable[Path] = (),
        plugins: Iterable[Path] = (),
        hadoop: bool = True,
    ) -> None:
        self.release = release
        self.folder = folder
        self.home = folder / "home"
        self.rest = free_port()
        self._lay_out(told, libraries, plugins)
        self._hadoop = hadoop
        self.job_manager: Manager
        self.task_managers: list[Manager] = []
        self._all: list[Manager] = []

    def _lay_out(self, told: FlinkSettings, libraries: Iterable[Path], plugins: Iterable[Path]) -> None:
        distribution = self.release.distribution
        (self.folder / "tmp").mkdir()
        for name in ("opt", "log", "plugins", "lib", "conf"):
            (self.home / name).mkdir(parents=True)
        # Flink takes for its home where its scripts lie, links resolved.
        shutil.copytree(distribution / "bin", self.home / "bin")
        formats = (*self.release.formats, *libraries, Path(jar_of_adapter()))
        for jar in (*(distribution / "lib").glob("*.jar"), *formats):
            (self.home / "lib" / jar.name).symlink_to(jar)
        for jar in (distribution / "opt").glob("*.jar"):
            (self.home / "opt" / jar.name).symlink_to(jar)
        for jar in plugins:
            (self.home / "plugins" / jar.stem).mkdir()
            (self.home / "plugins" / jar.stem / jar.name).symlink_to(jar)
        for file in (distribution / "conf").glob("log4j*"):
            (self.home / "conf" / file.name).symlink_to(file)
        (self.home / "conf" / "core-site.xml").write_text(told.site_as_xml())
        # Before Flink 1.19 it is flink-conf.yaml.
        (shipped,) = (distribution / "conf").glob("*conf*.yaml")
        lines = shipped.read_text().splitlines()
        opened = next(each for each in lines if "--add-opens" in each).split("all:")[1].strip()
        settings = {
            "env.java.opts.all": f"{opened} -Djava.io.tmpdir={self.folder / 'tmp'}",
            "io.tmp.dirs": str(self.folder / "tmp"),
            "jobmanager.rpc.address": "127.0.0.1",
            "jobmanager.rpc.port": str(free_port()),
            "jobmanager.bind-host": "127.0.0.1",
            "jobmanager.memory.process.size": "1g",
            "rest.address": "127.0.0.1",
            "rest.port": str(self.rest),
            "taskmanager.host": "127.0.0.1",
            "taskmanager.bind-host": "127.0.0.1",
            "taskmanager.numberOfTaskSlots": "4",
            "taskmanager.memory.process.size": "1500m",
            # The client of Hadoop 3.3's S3A keeps the class loader of the first job that has used it.
            "classloader.check-leaked-classloader": "false",
            "heartbeat.interval": "1000",
            "heartbeat.timeout": "8000",
            "metrics.fetcher.update-interval": "500",
            # Jobs of one table in JVMs of their own: within one, Iceberg has a lock.
            "taskmanager.load-balance.mode": "SLOTS",
            **told.config,
        }
        lines = [f"{key}: {value}" for key, value in settings.items()]
        (self.home / "conf" / shipped.name).write_text("\n".join(lines) + "\n")

    @property
    def of_a_job(self) -> dict[str, str]:
        """What a program says for its jobs; a table environment reads no config.yaml."""
        return {
            "execution.target": "remote",
            "rest.address": "127.0.0.1",
            "rest.port": str(self.rest),
            "parallelism.default": "1",
            "execution.checkpointing.interval": "2 s",
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "execution.checkpointing.dir": (self.folder / "checkpoints").as_uri(),
            "restart-strategy.type": "fixed-delay",
            # Where there is no task manager, each second is an attempt.
            "restart-strategy.fixed-delay.attempts": "1000",
            "restart-strategy.fixed-delay.delay": "1 s",
        }

    @property
    def environment(self) -> dict[str, str]:
        """What its processes, and its clients, have in their environment."""
        jars = [each for each in self.release.jars.glob("*.jar") if each.name.startswith(_HADOOP)]
        return {
            **os.environ,
            "FLINK_HOME": str(self.home),
            "FLINK_CONF_DIR": str(self.home / "conf"),
            "FLINK_LOG_DIR": str(self.home / "log"),
            "FLINK_PLUGINS_DIR": str(self.home / "plugins"),
            "PUTIFABSENT_SERVICE_SECRET": SECRET,
            "HADOOP_CLASSPATH": ":".join(map(str, jars if self._hadoop else [])),
            "HADOOP_CONF_DIR": str(self.home / "conf"),
        }

    def __enter__(self) -> Self:
        try:
            self.start_job_manager()
            self.start_task_manager()
            self.start_task_manager()
            self.wait(2)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._all:
            each.kill()

    def start_job_manager(self) -> None:
        """Start one, where none is."""
        self.job_manager = self._started("jobmanager")

    def start_task_manager(self) -> None:
        """Start one more."""
        self.task_managers.append(self._started("taskmanager"))

    def kill_task_managers(self, which: Iterable[Manager]) -> None:
        """Kill some, and start none in their place."""
        killed = set(which)
        for each in killed:
            each.kill()
        self.task_managers = [each for each in self.task_managers if each not in killed]

    @contextmanager
    def replaced(self) -> Iterator[Callable[[], None]]:
        """Have all task managers stand still, and others in their place.

        What is given has them come back; they end with the block.
        """
        standing = list(self.task_managers)
        try:
            for each in standing:
                each.signal(signal.SIGSTOP)
            # Their tasks go elsewhere when they have been silent for long enough.
            self.wait(0)
            for _ in standing:
                self.start_task_manager()
            self.wait(len(standing))

            def come_back() -> None:
                for each in standing:
                    each.signal(signal.SIGCONT)

            yield come_back
        finally:
            self.kill_task_managers(standing)

    @contextmanager
    def standing_still(self, jobs: Iterable[str]) -> Iterator[None]:
        """Have the job manager stand still. The block begins when task managers have given up these jobs."""
        named = list(jobs)

        def are_given_up() -> bool:
            logs = (self.home / "log").glob("*taskexecutor*.log")
            said = "".join(each.read_text(errors="replace") for each in logs)
            return all(f"Close JobManager connection for job {each}" in said for each in named)

        self.job_manager.signal(signal.SIGSTOP)
        try:
            self._until(are_given_up, _STARTS_WITHIN, "task managers have not given up all jobs")
            yield
        finally:
            self.job_manager.signal(signal.SIGCONT)

    def _started(self, which: str) -> Manager:
        script = self.home / "bin" / f"{which}.sh"
        with (self.home / "log" / f"{which}-{len(self._all)}.out").open("wb") as output:
            process = subprocess.Popen(
                # Flink's scripts become the JVM.
                [sys.executable, "-I", str(leash.__file__), "bash", str(script), "start-foreground"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env=self.environment,
                cwd=self.home,
                start_new_session=True,
            )
        assert process.stdout is not None
        started = Manager(process, int(process.stdout.readline()))
        self._all.append(started)
        return started

    def wait(self, task_managers: int) -> None:
        """Return when so many task managers have joined."""
        self._until(
            lambda: self._joined() == task_managers,
            _STARTS_WITHIN,
            f"there are no {task_managers} task managers",
        )

    def _joined(self) -> int | None:
        with suppress(OSError):
            return int(self.ask("/overview")["taskmanagers"])
        return None

    def wait_for(self, job: str) -> str:
        """Return a job's state when it goes on no more."""
        self._until(lambda: self.state(job) in _ENDED, _ENDS_WITHIN, f"job {job} goes on")
        return self.state(job)

    def state(self, job: str) -> str:
        """Return a job's state."""
        return str(self.ask(f"/jobs/{job}")["state"])

    def cancel(self, job: str) -> None:
        """Have a job go on no more."""
        assert self.end(job) == "CANCELED"

    def end(self, job: str) -> str:
        """Have a job go on no more, unless it has ended by itself, and return its state."""
        with suppress(HTTPError):
            self.ask(f"/jobs/{job}?mode=cancel", method="PATCH")
        return self.wait_for(job)

    def end_of_stock(self, jobs: Iterable[str]) -> list[str]:
        """Return how jobs end that may never do so by themselves: they are not waited for long."""
        named = list(jobs)
        with suppress(NotStartedError):
            until(lambda: all(self.state(each) in _ENDED for each in named), _STOCK_ENDS_WITHIN)
        return [self.end(each) for each in named]

    def checkpoints(self, job: str) -> int:
        """Return how many checkpoints of a job are complete."""
        return int(self.ask(f"/jobs/{job}/checkpoints")["counts"]["completed"])

    def checkpoint(self, job: str) -> None:
        """Have a job make a checkpoint."""
        self.ask(f"/jobs/{job}/checkpoints", "POST", checkpointType="FULL")

    def wait_for_checkpoints(self, job: str, number: int) -> None:
        """Return when so many checkpoints of a job are complete."""

        def are_complete() -> bool:
            goes_on = self.state(job) not in _ENDED
            complete = self.checkpoints(job)
            assert goes_on or complete >= number, f"job {job} has ended with {complete} checkpoints"
            return complete >= number

        self._until(are_complete, _ENDS_WITHIN, f"job {job} has no {number} checkpoints")

    def _until(self, is_so: Callable[[], bool], seconds: float, otherwise: str) -> None:
        until(is_so, seconds, f"{otherwise}; the logs are in {self.home / 'log'}")

    def rows_read(self, job: str) -> int:
        """Return how many rows a job's sources have given."""
        read = 0
        for vertex in self.ask(f"/jobs/{job}")["vertices"]:
            metrics = f"/jobs/{job}/vertices/{vertex['id']}/subtasks/metrics"
            given = [
                urllib.parse.quote(each["id"])
                for each in self.ask(metrics)
                if each["id"].startswith("Source__") and each["id"].endswith(".numRecordsOut")
            ]
            if given:
                read += sum(int(each["sum"]) for each in self.ask(f"{metrics}?get={','.join(given)}"))
        return read

    def wait_for_rows(self, job: str, number: int) -> None:
        """Return when a job's sources have given so many rows."""
        self._until(
            lambda: self.rows_read(job) >= number, _ENDS_WITHIN, f"job {job} has not read {number} rows"
        )

    def wait_for_tasks(self, job: str) -> None:
        """Return when all tasks of a job run, without which it makes no checkpoint."""

        def run() -> bool:
            return all(each["status"] == "RUNNING" for each in self.ask(f"/jobs/{job}")["vertices"])

        self._until(run, _ENDS_WITHIN, f"not all tasks of job {job} run")

    def stop(self, job: str) -> str:
        """Stop a job with a savepoint, and return its path once it is there: the job commits it then."""
        self.ask(f"/jobs/{job}/stop", "POST", targetDirectory=(self.folder / "savepoints").as_uri())
        self._until(lambda: self._savepoint(job) is not None, _ENDS_WITHIN, f"job {job} has no savepoint")
        return str(self._savepoint(job))

    def _savepoint(self, job: str) -> str | None:
        latest: dict[str, str] | None = self.ask(f"/jobs/{job}/checkpoints")["latest"]["savepoint"]
        return None if latest is None else latest["external_path"]

    def last_checkpoint(self, job: str) -> str:
        """Return the path of a job's last complete checkpoint, also of one that nobody runs any more."""
        complete = (self.folder / "checkpoints" / job).glob("chk-*/_metadata")
        return max(complete, key=lambda each: int(each.parent.name.partition("-")[2])).parent.as_uri()

    def resuming(self, path: str) -> dict[str, str]:
        """Return what has a job go on from a savepoint, or a checkpoint."""
        return {self.release.resumes_by: path}

    def ask(self, path: str, method: str = "GET", **said: Any) -> Any:
        """Ask the job manager by its REST API, with a body where something is said."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.rest}{path}",
            data=json.dumps(said).encode() if said else None,
            headers={"Content-Type": "application/json"},
            method=method,
        )
        # Of a job of Hudi 1.x it says nothing before that has made its metadata table.
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - our own
            return json.load(answer)
