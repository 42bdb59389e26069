"""Which peers, which of their tests, and what stands in whose place."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PEERS", "Peer"]


@dataclass(frozen=True)
class Peer:
    """A suite.

    Attributes
    ----------
    name
        What it is called here; the sdist's, where it has one.
    tests
        Which of its tests, from the root of the sdist.
    guards
        What is guarded: protocols of fsspec, or a door (``pyiceberg``, ``pypaimon``).
    within
        ``sdist``: the suite and its code are the sdist's. ``installed``: the suite is what the wheel ships.
        ``onto``: the sdist's suite, laid on the installed package, which is a later release. ``ours``: the
        sdist has classes to inherit alone, and the module here does.
    environment
        Whose interpreter runs it.
    server
        What it asks for that it does not start itself, as :mod:`tests.servers` calls it.
    settings
        More of its environment.
    arguments
        More for pytest. ``{name}`` is what the server has under this name.
    short
        Whether it is run by ``--short``.
    """

    name: str
    tests: tuple[str, ...]
    guards: tuple[str, ...]
    within: str = "sdist"
    environment: str = ".venv-peers"
    server: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    arguments: tuple[str, ...] = ()
    short: bool = False


PEERS = (
    Peer(
        "s3fs",
        ("s3fs/tests",),
        ("s3",),
        # It asks for an address outside.
        arguments=("--deselect=s3fs/tests/test_s3fs.py::test_async_close",),
    ),
    # Its sdist leaves its tests out, but for the abstract ones, which filesystems inherit.
    Peer("fsspec", ("abstract_suites.py",), ("file", "memory"), within="ours", short=True),
    Peer(
        "zarr",
        ("tests/test_store/test_fsspec.py",),
        ("s3", "file", "memory"),
    ),
    Peer(
        "dask",
        ("dask/bytes/tests", "dask/dataframe/io/tests/test_csv.py", "dask/dataframe/io/tests/test_json.py"),
        ("s3", "file", "memory"),
        # Where it looks for the server.
        settings=(("PUTIFABSENT_PEER_MOTO", "5555"),),
        # What asks for an address outside.
        arguments=("-m", "not network"),
    ),
    Peer(
        "universal-pathlib",
        ("upath/tests",),
        # Both of a disk's, for the suite asks whether they are the same.
        ("s3", "file", "local", "memory"),
        # Nothing is guarded in these, which start a container or a server each, or ask the network.
        arguments=tuple(
            f"--ignore=upath/tests/implementations/test_{each}.py"
            for each in ("azure", "ftp", "gcs", "github", "hdfs", "hf", "http", "sftp", "smb", "webdav")
        ),
    ),
    # Its sdist is Arrow's C++ as well; its wheel ships the tests.
    Peer(
        "pyarrow",
        ("test_fs.py",),
        ("file", "memory"),
        within="installed",
        arguments=("-k", "fsspec or FSSpec"),
        short=True,
    ),
    Peer(
        "pyiceberg",
        ("tests/io/test_fsspec.py", "tests/io/test_io.py"),
        ("pyiceberg",),
        server="localbucket",
        # The others want a server each, and a gateway that signs.
        arguments=(
            *("-m", "not adls and not gcs and not integration"),
            *("--s3.endpoint={endpoint}", "--s3.access-key-id={key}", "--s3.secret-access-key={secret}"),
        ),
        short=True,
    ),
    # The newest sdist that has tests; what they test is the release whose catalog the door is.
    Peer(
        "pypaimon",
        ("pypaimon/tests",),
        ("pypaimon",),
        within="onto",
        environment=".venv-peers-older",
        # These start an HTTP server each, or want Ray, Java or Python 3.6.
        arguments=(
            *("-o", "python_files=*_test.py"),
            *(f"--ignore=pypaimon/tests/{each}" for each in ("rest", "e2e", "py36")),
        ),
    ),
    Peer(
        "adlfs",
        ("adlfs/tests",),
        ("abfs", "az"),
        server="azurite",
        # It wants 6 GiB of memory.
        arguments=("--deselect=adlfs/tests/test_spec.py::test_large_upload_overflow",),
    ),
    # The newest sdist that has tests; the environment's gcsfs is of the same release.
    Peer(
        "gcsfs",
        ("gcsfs/tests",),
        ("gs", "gcs"),
        environment=".venv-peers-older",
        server="fake-gcs-server",
    ),
)  # fmt: skip
