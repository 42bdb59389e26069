"""PyFlink programs in processes of their own, and the statements with which they write each format."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.child import Child

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Self

    from putifabsent.timeline import Timeline
    from tests.flink.cluster import Cluster

__all__ = ["FORMATS", "Feed", "Format", "Program", "counted"]

_PROGRAM = Path(__file__).with_name("program.py")


class Program:
    """A client of a cluster: it ends with the test that has started it.

    Parameters
    ----------
    cluster
        The one that it submits jobs to.
    log
        Where it writes what it has to say.
    """

    def __init__(self, cluster: Cluster, log: Path) -> None:
        self.cluster = cluster
        python = str(cluster.release.python)
        env = {**cluster.environment, "PYFLINK_CLIENT_EXECUTABLE": python}
        self._child = Child([python, str(_PROGRAM)], log, cwd=cluster.folder, env=env)

    def __enter__(self) -> Self:
        self._child.heard()
        return self

    def __exit__(self, *_: object) -> None:
        self._child.end()

    def run(self, *statements: str) -> list[list[Any]]:
        """Run statements, and return the last one's rows."""
        rows: list[list[Any]] = self._call(statements, mode="batch")
        return rows

    def submit(self, *statements: str, bounded: bool = False, **settings: str) -> str:
        """Run statements, of which the last is a job that goes on, and return the job's id.

        Parameters
        ----------
        bounded
            Whether it is a batch, which has no checkpoints.
        settings
            Flink's, for this job: dots as double underscores, hyphens as single ones.
        """
        named = {key.replace("__", ".").replace("_", "-"): value for key, value in settings.items()}
        job: str = self._call(statements, mode="bounded" if bounded else "streaming", settings=named)
        return job

    def _call(self, statements: tuple[str, ...], **said: Any) -> Any:
        said["settings"] = {**self.cluster.of_a_job, **said.get("settings", {})}
        return self._child.call({"statements": statements, **said})["answer"]


def counted(rows: int, a_second: int) -> str:
    """Return a source of the numbers below ``rows``, which then comes to its end."""
    return (
        f"'connector'='datagen', 'rows-per-second'='{a_second}', 'fields.n.kind'='sequence', "
        f"'fields.n.start'='0', 'fields.n.end'='{rows - 1}'"
    )


class Feed(NamedTuple):
    """A folder from which a job reads numbers, also those that come later: it has no end.

    What a job of Iceberg's commits at its end belongs to no checkpoint: one that is killed then, and goes on
    from its last checkpoint, commits the same again, on any store.
    """

    folder: Path

    @classmethod
    def made(cls, folder: Path) -> Feed:
        """Make the folder."""
        folder.mkdir(parents=True)
        return cls(folder)

    @property
    def source(self) -> str:
        """Itself as a source."""
        return (
            f"'connector'='filesystem', 'path'='{self.folder.as_uri()}', 'format'='csv', "
            "'source.monitor-interval'='500 ms'"
        )

    def pour(self, numbers: range) -> None:
        """Have the job read these."""
        # Files with a dot before their names are not read.
        begun = self.folder / f".{numbers.start}"
        begun.write_text("".join(f"{each}\n" for each in numbers))
        begun.rename(self.folder / f"{numbers.start}.csv")


class Format(NamedTuple):
    """How Flink's SQL names a format's tables.

    Attributes
    ----------
    catalog
        Options of a catalog by which tables lie in the warehouse ``{}``.
    folder
        Where the table lies in it.
    total
        How many rows a table has, by its timeline.
    table
        What a table is told beside its columns.
    """

    catalog: str
    folder: str
    total: Callable[[Timeline[Any]], int]
    table: str = ""

    def opened(self, warehouse: str) -> list[str]:
        """Return the statements that find a table ``t``, or make it."""
        return [
            f"CREATE CATALOG c WITH ({self.catalog.format(warehouse)})",
            "CREATE DATABASE IF NOT EXISTS c.db",
            f"CREATE TABLE IF NOT EXISTS c.db.t (who STRING, n BIGINT) {self.table.format(warehouse)}",
        ]

    def made(self, program: Program, warehouse: str) -> None:
        """Make the table: two jobs that begin at once would both."""
        program.run(*self.opened(warehouse))

    def streamed(self, program: Program, warehouse: str, who: str, source: str, **settings: Any) -> str:
        """Have a job write what a source gives, and commit the rows of each checkpoint; return its id.

        A ``bounded`` one commits all of them at its end.
        """
        return program.submit(
            *self.opened(warehouse),
            f"CREATE TEMPORARY TABLE source (n BIGINT) WITH ({source})",
            f"INSERT INTO c.db.t SELECT '{who}', n FROM source",  # noqa: S608 - our own
            pipeline__name=who,
            **settings,
        )

    def read(self, program: Program, warehouse: str) -> Counter[tuple[str, int]]:
        """Return how often each row is there."""
        found = program.run(*self.opened(warehouse), "SELECT who, n FROM c.db.t")
        return Counter((who, n) for who, n in found)


def _by_the_newest(says: Callable[[Mapping[str, Any]], int]) -> Callable[[Timeline[Any]], int]:
    def total(timeline: Timeline[Any]) -> int:
        snapshots = list(timeline.active())
        return says(snapshots[-1].content) if snapshots else 0

    return total


FORMATS = {
    "iceberg": Format(
        "'type'='iceberg', 'catalog-type'='hadoop', 'warehouse'='{}'",
        "db/t",
        _by_the_newest(lambda said: int(said["summary"]["total-records"])),
    ),
    "paimon": Format(
        "'type'='paimon', 'warehouse'='{}'",
        "db.db/t",
        _by_the_newest(lambda said: int(said["totalRecordCount"])),
    ),
}
