"""Options mean what they say, and what can't be meant is refused before anything is sent."""

from __future__ import annotations

import errno
import math
import os
import subprocess
import sys
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent import ConfigError, NameTaken
from tests.fault_proxy import Fault, FaultProxy
from tests.stub import FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fsspec_plugin.grounds import Ground
    from tests.stub.server import Cloud

NAME = f"bucket/t/_delta_log/{0:020d}.json"
BODY = b"mine"
LARGE = 2048

# --- said wrongly


@pytest.mark.parametrize(
    ("protocol", "option", "nearest"),
    [
        ("pias3", "formts", "formats"),
        ("pias3", "dead_line", "deadline"),
        ("pias3", "endpoint_uri", "endpoint_url"),
        ("pias3", "s3_additional_kwarg", "s3_additional_kwargs"),
        ("piafile", "auto_mkdirs", "auto_mkdir"),
        ("piafile", "gard", "guard"),
        ("piamemory", "writr", "writer"),
        ("putifabsent", "target_option", "target_options"),
    ],
)
def test_an_unknown_option_is_told_with_the_nearest_one(protocol: str, option: str, nearest: str) -> None:
    target = {"target_protocol": "memory"} if protocol == "putifabsent" else {}
    with pytest.raises(ConfigError, match=f"unknown option '{option}' .*did you mean '{nearest}'"):
        fsspec.filesystem(protocol, **target, **{option: 1})


def test_an_option_that_is_like_no_other_is_told_too() -> None:
    with pytest.raises(ConfigError, match="unknown option 'zzzzzz'"):
        fsspec.filesystem("piamemory", zzzzzz=1)


def test_the_error_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="unknown option"):
        fsspec.filesystem("piamemory", zzzzzz=1)


@pytest.mark.parametrize("deadline", [0, -1, math.nan, math.inf, "soon", "nan", "-1", "", True, None, [1]])
def test_a_deadline_is_a_positive_number_of_seconds(deadline: Any) -> None:
    with pytest.raises(ConfigError, match="deadline must be a positive number of seconds"):
        fsspec.filesystem("piamemory", deadline=deadline)


def test_options_may_come_as_text(local: Ground) -> None:
    """As from catalogs and configuration files."""
    fs = local.mount(deadline="7.5", strict="True", formats="delta, hudi")
    assert (fs.mount.options.deadline, fs.mount.options.strict) == (7.5, True)
    assert local.mount(strict="false").mount.options.strict is False


@pytest.mark.parametrize(
    ("formats", "told"),
    [
        ("paimn", "did you mean 'paimon'"),
        (["delta", "icebreg"], "did you mean 'iceberg'"),
        ("auto,delta", "stands alone"),
        (["none", "delta"], "stands alone"),
        ("zzz", "choose from"),
        (3, "say one string, or a list"),
    ],
)
def test_an_unknown_format_is_told_with_the_nearest_one(formats: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        fsspec.filesystem("piamemory", formats=formats)


@pytest.mark.parametrize("guard", ["s3://bucket/x", "a//b", "", ["/"], "a**", 5])
def test_a_pattern_that_matches_nothing_is_refused(guard: Any) -> None:
    with pytest.raises(ConfigError):
        fsspec.filesystem("piamemory", guard=guard)


@pytest.mark.parametrize("arbiter", ["nativ", "dynamodb://t", "dynamodb://table?regoin=x", "redis://h:x", ""])
def test_an_arbiter_that_there_is_not_is_refused(arbiter: str) -> None:
    with pytest.raises(ConfigError, match=r"arbiter|regoin|table|port"):
        fsspec.filesystem("piamemory", arbiter=arbiter)


@pytest.mark.parametrize("writer", ["two\nlines", "caf\u00e9", 5])
def test_a_writer_that_no_header_can_carry_is_refused(writer: Any) -> None:
    with pytest.raises(ConfigError, match="writer"):
        fsspec.filesystem("piamemory", writer=writer)


def test_a_filesystem_that_nobody_can_guard_is_refused() -> None:
    with pytest.raises(ConfigError, match="can't be guarded"):
        fsspec.filesystem("putifabsent", target_protocol="data")
    with pytest.raises(ConfigError, match="name a filesystem to guard"):
        fsspec.filesystem("putifabsent")


# --- what is guarded


def test_patterns_guard_more_names(ground: Ground) -> None:
    fs = ground.mount(guard=["**/manifest-*", f"{ground.folder}/claim", "queue/"])
    fs.makedirs(ground.name("queue/deep"), exist_ok=True)
    for name in ("manifest-1", "claim", "queue/x", "queue/deep/y"):
        fs.pipe_file(ground.name(name), BODY)
        with pytest.raises(NameTaken):
            fs.pipe_file(ground.name(name), BODY)
    for name in ("manifest", "claim2", "xqueue"):
        fs.pipe_file(ground.name(name), BODY)
        fs.pipe_file(ground.name(name), b"again")
        assert ground.read(ground.name(name)) == b"again"
    with pytest.raises(NameTaken):
        fs.pipe_file(fs.unstrip_protocol(ground.name("claim")), BODY)


def test_formats_that_are_named_are_the_only_ones(memory: Ground) -> None:
    snapshot = memory.name("t/snapshot/snapshot-1")
    guarded = {
        formats: tuple(
            memory.mount(formats=formats).explain(name).guarded for name in (snapshot, memory.log())
        )
        for formats in ("auto", "paimon", "delta", "none", "paimon,delta")
    }
    assert guarded == {
        "auto": (True, True),
        "paimon": (True, False),
        "delta": (False, True),
        "none": (False, False),
        "paimon,delta": (True, True),
    }
    fs = memory.mount(formats="none")
    fs.pipe_file(memory.log(), BODY)
    fs.pipe_file(memory.log(), b"again")
    with pytest.raises(NameTaken):
        fs.pipe_file(memory.log(), BODY, mode="create")
    assert memory.mount(formats=[]).explain(memory.log()).guarded is False


def test_a_named_format_asks_for_no_evidence(ground: Ground) -> None:
    fs = ground.mount(formats=["paimon"])
    name = ground.name("t/snapshot/snapshot-1")
    fs.makedirs(ground.name("t/snapshot"), exist_ok=True)
    fs.pipe_file(name, BODY)
    with pytest.raises(NameTaken):
        fs.pipe_file(name, BODY)


# --- evidence


EVIDENCE = [
    ("offsets/3", "metadata"),
    ("commits/3", "offsets/3"),
    ("sources/0/3", "metadata"),
    ("metadata", "offsets/0"),
    ("snapshot/snapshot-1", "schema/schema-0"),
    ("schema/schema-1", "schema/schema-0"),
    ("schema/schema-0", "snapshot/snapshot-1"),
]


@pytest.mark.parametrize(("last", "evidence"), EVIDENCE)
def test_names_of_other_programs_are_guarded_with_evidence_only(
    ground: Ground, last: str, evidence: str
) -> None:
    fs = ground.mount(skip_instance_cache=True)
    name = ground.name(f"t/{last}")
    fs.makedirs(name.rpartition("/")[0], exist_ok=True)
    fs.pipe_file(name, b"one")
    fs.pipe_file(name, b"two")
    assert ground.read(name) == b"two"

    ground.around.makedirs(ground.name(f"t/{evidence}").rpartition("/")[0], exist_ok=True)
    ground.write(ground.name(f"t/{evidence}"), b"other")
    writes: list[Callable[[], Any]] = [
        lambda: fs.pipe_file(name, b"three"),
        lambda: fs.open(name, "wb"),
        lambda: fs.cp_file(ground.name(f"t/{evidence}"), name),
        lambda: fs.mv(ground.name(f"t/{evidence}"), name),
    ]
    for write in writes:
        with pytest.raises(NameTaken):
            write()
    assert ground.read(name) == b"two"


def test_evidence_is_looked_for_until_it_is_found_and_then_no_more(stub: FaultStub, on_stub: Any) -> None:
    fs = on_stub(skip_instance_cache=True)

    def looks(number: int) -> int:
        before = len(stub.requests)
        fs.pipe_file(f"bucket/c/offsets/{number}", BODY)
        return sum(
            request.key.startswith("c/metadata") or request.op is Op.LIST
            for request in stub.requests[before:]
        )

    assert looks(7) > 0
    assert looks(7) > 0, "that nothing is there is not remembered: the query may start any time"
    stub.put("bucket", "c/metadata", b"{}")
    assert looks(8) > 0
    assert looks(9) == 0
    stub.delete("bucket", "c/metadata")
    with pytest.raises(NameTaken):
        fs.pipe_file("bucket/c/offsets/9", BODY)


def test_evidence_that_appears_behind_a_listing_is_seen(stub: FaultStub, on_stub: Any) -> None:
    fs = on_stub(skip_instance_cache=True, use_listings_cache=True)
    stub.put("bucket", "c/offsets/0", b"")
    assert fs.ls("bucket/c", detail=False) == ["bucket/c/offsets"]
    stub.put("bucket", "c/metadata", b"{}")
    with pytest.raises(NameTaken):
        fs.pipe_file("bucket/c/offsets/0", BODY)


def test_who_does_not_find_the_store_says_nothing_of_evidence(stub: FaultStub, on_stub: Any) -> None:
    """A proxy that is being set up says 404 of all for a moment, and then lets the write through."""
    stub.put("bucket", "t/schema/schema-0", b"{}")
    stub.put("bucket", "t/snapshot/snapshot-1", b"the winner's")
    not_found = Fault(applies=False, says=b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
    with FaultProxy(stub.storage_options("s3")["endpoint_url"]) as proxy:
        fs = on_stub(endpoint_url=proxy.endpoint, skip_instance_cache=True)
        proxy.script("HEAD", not_found)
        proxy.script("GET", *[not_found] * 3)
        with pytest.raises(NameTaken):
            fs.pipe_file("bucket/t/snapshot/snapshot-1", BODY)
    assert stub.objects["bucket", "t/snapshot/snapshot-1"].data == b"the winner's"


def test_evidence_of_one_table_is_none_for_another(stub: FaultStub, on_stub: Any) -> None:
    fs = on_stub(skip_instance_cache=True)
    stub.put("bucket", "c/metadata", b"{}")
    fs.pipe_file("bucket/c/offsets/0", BODY)
    fs.pipe_file("bucket/d/offsets/0", b"one")
    fs.pipe_file("bucket/d/offsets/0", b"two")
    assert stub.objects["bucket", "d/offsets/0"].data == b"two"


@pytest.mark.parametrize(
    ("metadata", "schema"),
    [
        ("w/db.db/t/metadata", "w/db.db/t/schema/schema-0"),
        ("w/iceberg/db/t/metadata", "w/db.db/t/schema/schema-0"),
    ],
)
def test_what_paimon_keeps_for_iceberg_s_readers_is_left_alone(
    ground: Ground, metadata: str, schema: str
) -> None:
    fs = ground.mount(skip_instance_cache=True)
    for folder in (metadata, "w/db.db/t/schema", "w/db.db/t/snapshot"):
        ground.around.makedirs(ground.name(folder), exist_ok=True)
    fs.pipe_file(ground.name(schema), b"{}")
    fs.pipe_file(ground.name("w/db.db/t/snapshot/snapshot-1"), b"{}")
    fs.pipe_file(ground.name(f"{metadata}/v1.metadata.json"), b"one")
    fs.pipe_file(ground.name(f"{metadata}/v1.metadata.json"), b"two")
    assert ground.read(ground.name(f"{metadata}/v1.metadata.json")) == b"two"


def test_what_speaks_against_iceberg_s_names_is_looked_for_once_a_table(
    stub: FaultStub, on_stub: Any
) -> None:
    fs = on_stub(skip_instance_cache=True)

    def looks(number: int) -> int:
        before = len(stub.requests)
        fs.pipe_file(f"bucket/t/metadata/v{number}.metadata.json", BODY)
        return sum(request.key.startswith("t/schema") for request in stub.requests[before:])

    assert looks(1) > 0
    assert looks(2) == 0
    with pytest.raises(NameTaken):
        fs.pipe_file("bucket/t/metadata/v2.metadata.json", BODY)


def test_who_may_not_see_what_speaks_against_a_name_creates_it(
    local: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = local.name("t/metadata")
    local.around.makedirs(folder)
    stat = os.stat

    def forbidden(path: Any, *args: Any, **kwargs: Any) -> os.stat_result:
        if str(path).endswith("schema-0"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return stat(path, *args, **kwargs)

    fs = local.mount(skip_instance_cache=True)
    monkeypatch.setattr(os, "stat", forbidden)
    fs.pipe_file(f"{folder}/v1.metadata.json", BODY)
    with pytest.raises(NameTaken):
        fs.pipe_file(f"{folder}/v1.metadata.json", BODY)


# --- who writes


def test_the_writer_is_kept_with_what_it_creates(ground: Ground) -> None:
    ground.mount(writer="0123-4567").pipe_file(ground.log(), BODY)
    assert ground.fs.backend.head(ground.log()).holder.writer == "0123-4567"
    with pytest.raises(NameTaken, match="0123-4567"):
        ground.fs.pipe_file(ground.log(), BODY)


def test_the_writer_is_one_a_process_or_what_the_environment_says() -> None:
    code = (
        "import fsspec; print(fsspec.filesystem('piamemory').writer, fsspec.filesystem('piafile').writer, "
        "fsspec.filesystem('piafile', writer='said').writer)"
    )

    def printed(**environment: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout.split()

    assert printed(PUTIFABSENT_WRITER="the-application") == ["the-application", "the-application", "said"]
    first, second = printed(PUTIFABSENT_WRITER=""), printed(PUTIFABSENT_WRITER="")
    assert first[0] == first[1] != second[0] == second[1]
    assert len(first[0]) == len("00000000-0000-0000-0000-000000000000")


# --- what goes with a put


PUTS: dict[str, tuple[Op, Callable[..., Any]]] = {
    "small": (Op.PUT, lambda fs, **extra: fs.pipe_file(NAME, BODY, **extra)),
    "small by open": (Op.PUT, lambda fs, **extra: written(fs, BODY, **extra)),
    "small by put": (Op.PUT, lambda fs, **extra: fs.put_file(os.devnull, NAME, **extra)),
    "small by copy": (Op.PUT, lambda fs, **extra: fs.cp_file("bucket/small", NAME, **extra)),
    "small by move": (Op.PUT, lambda fs, **extra: fs.mv("bucket/small", NAME, **extra)),
    "large": (Op.CREATE_UPLOAD, lambda fs, **extra: fs.pipe_file(NAME, BODY * LARGE, **extra)),
    "large by open": (Op.CREATE_UPLOAD, lambda fs, **extra: written(fs, BODY * LARGE, **extra)),
    "large by copy": (Op.CREATE_UPLOAD, lambda fs, **extra: fs.cp_file("bucket/large", NAME, **extra)),
}


def written(fs: Any, body: bytes, **extra: Any) -> None:
    with fs.open(NAME, "wb", **extra) as file:
        file.write(body)


def sent(stub: FaultStub, on_stub: Any, put: str, extra: dict[str, Any], **options: Any) -> dict[str, str]:
    """Return the headers of the request that says what the object shall be."""
    fs = on_stub(**options)
    fs.backend.largest_put = LARGE
    stub.put("bucket", "small", BODY)
    stub.put("bucket", "large", BODY * LARGE)
    op, create = PUTS[put]
    create(fs, **extra)
    (request,) = [each for each in stub.requests if each.op is op]
    assert request.name == tuple(NAME.split("/", 1))
    assert request.headers["x-amz-meta-putifabsenttoken"]
    return dict(request.headers)


@pytest.mark.parametrize("put", PUTS)
def test_what_s3fs_adds_to_each_put_goes_with_guarded_ones(stub: FaultStub, on_stub: Any, put: str) -> None:
    headers = sent(
        stub,
        on_stub,
        put,
        {},
        s3_additional_kwargs={
            "ServerSideEncryption": "aws:kms",
            "SSEKMSKeyId": "the key",
            "StorageClass": "STANDARD_IA",
            "ACL": "bucket-owner-full-control",
            "RequestPayer": "requester",
            "Metadata": {"purpose": "test"},
        },
    )
    assert headers["x-amz-server-side-encryption"] == "aws:kms"
    assert headers["x-amz-server-side-encryption-aws-kms-key-id"] == "the key"
    assert headers["x-amz-storage-class"] == "STANDARD_IA"
    assert headers["x-amz-acl"] == "bucket-owner-full-control"
    assert headers["x-amz-request-payer"] == "requester"
    assert headers["x-amz-meta-purpose"] == "test"


@pytest.mark.parametrize(
    ("protocol", "cloud", "key"), [("pias3", "s3", "ContentType"), ("piags", "gcs", "content_type")]
)
def test_a_file_that_is_put_has_its_type(
    stub: FaultStub, tmp_path: Path, protocol: str, cloud: Cloud, key: str
) -> None:
    fs = fsspec.filesystem(
        protocol, arbiter="native", skip_instance_cache=True, **stub.storage_options(cloud)
    )
    file = tmp_path / "file.json"
    file.write_bytes(BODY)
    fs.put_file(file, NAME)
    assert stub.objects["bucket", NAME.partition("/")[2]].content_type == "application/json"
    # By the quick client, as one without a type.
    put = next(each for each in stub.requests if each.op is Op.PUT)
    assert cloud != "s3" or put.headers["user-agent"].startswith("object_store/")
    fs.put_file(file, f"{NAME}.said", mode="create", **{key: "text/x"})
    assert stub.objects["bucket", NAME.partition("/")[2] + ".said"].content_type == "text/x"


@pytest.mark.parametrize("given", [None, 5, b"text/x"])
def test_a_type_that_is_no_text_is_refused_before_anything_is_sent(
    stub: FaultStub, on_stub: Any, given: object
) -> None:
    with pytest.raises(ValueError, match="ContentType"):
        sent(stub, on_stub, "small", {"ContentType": given})
    assert Op.PUT not in {each.op for each in stub.requests}


@pytest.mark.parametrize("put", PUTS)
def test_whoever_pays_for_requests_pays_for_all(stub: FaultStub, on_stub: Any, put: str) -> None:
    sent(stub, on_stub, put, {}, requester_pays=True)
    unpaid = [each.op for each in stub.requests if each.headers.get("x-amz-request-payer") != "requester"]
    assert unpaid == []


@pytest.mark.parametrize("put", PUTS)
def test_what_a_call_adds_goes_with_it(stub: FaultStub, on_stub: Any, put: str) -> None:
    extra = {
        "ACL": "public-read",
        "ContentType": "text/x",
        "Metadata": {"one": "1"},
        "metadata": {"two": "2"},
        "StorageClass": "GLACIER",
    }
    headers = sent(stub, on_stub, put, extra)
    assert headers["x-amz-acl"] == "public-read"
    assert headers["content-type"] == "text/x"
    assert (headers["x-amz-meta-one"], headers["x-amz-meta-two"]) == ("1", "2")
    assert headers["x-amz-storage-class"] == "GLACIER"
    assert headers["x-amz-meta-putifabsentwriter"]


def test_acl_may_be_said_as_s3fs_has_it(stub: FaultStub, on_stub: Any) -> None:
    assert sent(stub, on_stub, "small by open", {"acl": "public-read"})["x-amz-acl"] == "public-read"


def test_the_token_can_not_be_said_by_the_caller(stub: FaultStub, on_stub: Any) -> None:
    headers = sent(stub, on_stub, "small", {"Metadata": {"putifabsenttoken": "forged"}})
    assert headers["x-amz-meta-putifabsenttoken"] != "forged"


@pytest.mark.parametrize("put", PUTS)
def test_what_no_put_can_carry_is_refused_with_nothing_sent(stub: FaultStub, on_stub: Any, put: str) -> None:
    fs = on_stub()
    fs.backend.largest_put = LARGE
    stub.put("bucket", "small", BODY)
    stub.put("bucket", "large", BODY * LARGE)
    with pytest.raises(ConfigError, match="can't carry NoSuchParameter"):
        PUTS[put][1](fs, NoSuchParameter="x")
    assert set(stub.ops) <= {Op.HEAD, Op.GET}
    assert stub.objects.keys() == {("bucket", "small"), ("bucket", "large")}
    assert not stub.uploads


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_where_nothing_can_go_with_a_put_it_is_refused(request: pytest.FixtureRequest, kind: str) -> None:
    ground: Ground = request.getfixturevalue(kind)
    ground.write(ground.name("source"), BODY)
    writes: list[Callable[[], Any]] = [
        lambda: ground.fs.pipe_file(ground.log(), BODY, ACL="private"),
        lambda: ground.fs.cp_file(ground.name("source"), ground.log(), ACL="private"),
        lambda: ground.fs.open(ground.log(), "wb", ACL="private").close(),
    ]
    for write in writes:
        with pytest.raises(ConfigError, match="can't carry ACL"):
            write()
    assert ground.files() == ["source"]


def test_what_is_meant_for_the_client_is_no_parameter(ground: Ground) -> None:
    common = {"block_size": 10, "cache_type": "none", "cache_options": {}, "autocommit": True}
    with ground.fs.open(ground.log(), "wb", **common) as file:
        file.write(BODY)
    with ground.fs.open(ground.log(1), "w", newline="", encoding="utf-8", errors="strict", **common) as file:
        file.write("text")
    assert ground.read(ground.log()) == BODY


def test_its_repr_says_what_it_wraps_and_who_decides_and_no_password() -> None:
    fs = fsspec.filesystem("piamemory", arbiter="ballot")
    assert repr(fs) == f"<GuardedMemoryFileSystem at {id(fs):#x}, over MemoryFileSystem, arbiter ballot>"
    locked = fsspec.filesystem("piamemory", arbiter="redis://user:password@host:1/0")
    assert repr(locked).endswith("over MemoryFileSystem, arbiter redis>")


def test_what_is_made_over_two_mounts_is_not_one(memory: Ground) -> None:
    """Instances are known by what their options are called."""
    mounts = memory.fs, memory.mount(guard=["**/x-*"])
    above = [fsspec.filesystem("dir", path=memory.folder, fs=mount) for mount in mounts]
    assert [each.fs for each in above] == list(mounts)


class _Without(MetaPathFinder):
    """Finds no package of this name."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname.partition(".")[0] == self._package:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


@pytest.mark.parametrize(
    ("protocol", "package", "extra"),
    [("pias3", "s3fs", "s3"), ("piags", "gcsfs", "gcs"), ("piaaz", "adlfs", "azure")],
)
def test_a_package_that_is_not_installed_is_said_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, protocol: str, package: str, extra: str
) -> None:
    for module in [each for each in sys.modules if each.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [_Without(package), *sys.meta_path])
    with pytest.raises(ImportError) as caught:
        fsspec.filesystem(protocol, skip_instance_cache=True)
    assert str(caught.value) == (
        f"{protocol}:// wraps {package}, which is not installed: pip install 'putifabsent[{extra}]'"
    )


# --- directory buckets, which list in no order

DIRECTORY = "lake--use1-az4--x-s3"
COMMIT = f"{DIRECTORY}/t/_delta_log/{0:020d}.json"
TIMELINE = f"{DIRECTORY}/t/.hoodie/timeline"


@pytest.mark.parametrize("bucket", [DIRECTORY, "point--use1-az4--xa-s3"])
@pytest.mark.parametrize("arbiter", ["ballot", "redis://127.0.0.1:1", "dynamodb://claims?region=us-east-1"])
def test_no_arbiter_beside_the_store_decides_in_a_directory_bucket(bucket: str, arbiter: str) -> None:
    with FaultStub() as stub:
        fs = fsspec.filesystem("pias3", arbiter=arbiter, **stub.storage_options("s3"))
        told = f'{bucket} is a directory bucket .*use arbiter="native"'
        with pytest.raises(ConfigError, match=told):
            fs.pipe_file(f"{bucket}/t/_delta_log/{0:020d}.json", BODY)
        with pytest.raises(ConfigError, match=told):
            fs.rely(f"{bucket}/t")
        assert stub.requests == []


def test_no_ledger_is_kept_in_a_directory_bucket() -> None:
    with FaultStub() as stub:
        fs = fsspec.filesystem("pias3", arbiter="native", **stub.storage_options("s3"))
        with pytest.raises(ConfigError, match="use a general purpose bucket"):
            fs.pipe_file(f"{TIMELINE}/20261121100000000.commit.requested", b"")
        assert stub.requests == []


def test_the_store_itself_decides_in_a_directory_bucket() -> None:
    with FaultStub(buckets=(DIRECTORY,)) as stub:
        fs = fsspec.filesystem("pias3", arbiter="native", **stub.storage_options("s3"))
        fs.pipe_file(COMMIT, BODY)
        with pytest.raises(NameTaken):
            fs.pipe_file(COMMIT, b"another's")
        assert [each.data for each in stub.objects.values()] == [BODY]
