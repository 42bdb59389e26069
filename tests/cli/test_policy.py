"""``putifabsent policy``: what the store would refuse, and that guarded writers go on under it."""

from __future__ import annotations

import io
import json
import re
from fnmatch import translate
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from putifabsent.cli.app import app
from putifabsent.shim.policy import ENFORCED, RULES, bucket_policy
from tests.fsspec_plugin.grounds import Ground
from tests.fsspec_plugin.hudi_tables import Writer, table_in
from tests.stub import FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typer.testing import Result

    from putifabsent.shim.names import Rule
    from tests.stub.wire import Answer, Dialect, Request

NOT_BY_POLICY = {
    ".hoodie/timeline/<T>_<C>.<action>",
    ".hoodie/<T>.<action>",
    "<checkpoint>/metadata",
}
"""What ``beyond`` says is left out, though a plain write to it is a create."""


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["policy", *arguments])


def _denies(policy: dict[str, Any], name: str) -> bool:
    """Whether an unconditional put of that name is refused. The wildcards are fnmatch's, without sets."""
    [statement] = policy["Statement"]
    escaped = re.compile(r"\$\{(.)\}|\[")
    patterns = [escaped.sub(lambda found: f"[{found[1] or '['}]", each) for each in statement["Resource"]]
    return any(re.match(translate(pattern), f"arn:aws:s3:::{name}") for pattern in patterns)


# --- what it says


RULED = [(name, rule) for name, rules in RULES.items() for rule in rules]


@pytest.mark.parametrize(("name", "rule"), RULED, ids=[rule.pattern_text for _, rule in RULED])
def test_it_covers_guarded_names_and_no_others(name: str, rule: Rule) -> None:
    covered = rule.guarded and rule.pattern_text not in NOT_BY_POLICY
    assert _denies(bucket_policy("bucket", [name]), rule.example) is covered
    table = rule.example.split("/")[1]
    assert not _denies(bucket_policy(f"bucket/not-{table}", [name]), rule.example)


@pytest.mark.parametrize("place", ["lake", "lake/warehouse", "lake/warehouse/db.db/t"])
def test_it_is_of_the_table_there_and_of_all_below(place: str) -> None:
    policy = bucket_policy(place, ["paimon"])
    assert _denies(policy, f"{place}/snapshot/snapshot-7")
    assert _denies(policy, f"{place}/a/b/snapshot/snapshot-7")
    assert not _denies(policy, f"{place}-other/snapshot/snapshot-7")


def test_what_is_special_in_a_policy_is_escaped() -> None:
    policy = bucket_policy("lake/a*b?${c", ["delta"])
    assert policy["Statement"][0]["Resource"][0].startswith("arn:aws:s3:::lake/a${*}b${?}${$}{c/_delta_log/")
    assert _denies(policy, f"lake/a*b?${{c/_delta_log/{7:020}.json")
    assert not _denies(policy, f"lake/aXb?${{c/_delta_log/{7:020}.json")


def test_the_command_prints_it_and_says_what_is_beyond_it() -> None:
    result = _run("s3a://lake/warehouse/", "--format", "hudi", "--format", "spark")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == bucket_policy("lake/warehouse", ["hudi", "spark"])
    notes = " ".join(result.stderr.split())
    assert all(ENFORCED[name].beyond in notes for name in ("hudi", "spark"))
    assert ENFORCED["delta"].beyond not in notes
    assert "replaces the bucket's policy" in notes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gs://lake", "--format", "delta"), "gs://lake: only S3 has a policy"),
        (("/lake", "--format", "delta"), "/lake: only S3 has a policy"),
        (("s3://", "--format", "delta"), "s3:// names no bucket"),
        (("s3://lake", "--format", "dleta"), "did you mean 'delta'?"),
        (("s3://lake", "--format", "none"), "name the formats of the tables: hudi,"),
        ((f"s3://lake/{'x' * 250}", "--format", "auto"), "name fewer formats, or a shorter prefix"),
        (("s3://lake",), "--format"),
    ],
)
def test_what_no_policy_can_be_for_is_a_wrong_use(arguments: tuple[str, ...], message: str) -> None:
    result = _run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


# --- a store that obeys it


@pytest.fixture
def lake(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """Return a bucket with the policy for some formats."""
    policy = bucket_policy("bucket", request.param)

    async def obeying(dialect: Dialect, request: Request) -> Answer:
        creates = request.op in (Op.PUT, Op.COPY, Op.COMPLETE)
        if creates and "if-none-match" not in request.headers and _denies(policy, f"bucket/{request.key}"):
            return dialect.error(403, "AccessDenied", request)  # type: ignore[attr-defined, no-any-return]
        return await dialect.apply(request)

    with FaultStub(serve=obeying) as stub:
        yield Ground("s3", stub.storage_options("s3"), "bucket/t")


ENTRIES = {
    "delta": [f"_delta_log/{number:020}.json" for number in (0, 1)],
    "iceberg": ["metadata/v1.metadata.json", "metadata/v2.metadata.json", "metadata/v3.gz.metadata.json"],
    "paimon": ["schema/schema-0", "snapshot/snapshot-1", "snapshot/snapshot-2"],
    "spark": ["offsets/0", "metadata", "commits/0", "sources/0/0", "_spark_metadata/0", "offsets/1"],
}
OVERWRITTEN = {
    "delta": ["_delta_log/_last_checkpoint"],
    "iceberg": ["metadata/version-hint.text"],
    "paimon": ["snapshot/LATEST", "changelog/changelog-1"],
    "spark": ["state/0/0/1.delta", "offsets/.1.tmp"],
}


def _each(names: Sequence[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("lake", "name"), [([name], name) for name in names], indirect=["lake"], ids=names
    )


@_each(list(ENTRIES))
def test_guarded_writers_go_on_under_it_and_others_are_refused(lake: Ground, name: str) -> None:
    guarded, stock = lake.mount(formats=[name]), lake.around
    for entry in ENTRIES[name]:
        guarded.pipe_file(f"bucket/t/{entry}", b"mine")
        with pytest.raises(FileExistsError):
            guarded.pipe_file(f"bucket/t/{entry}", b"other")
    for entry in {*ENTRIES[name]} - {"metadata"}:
        with pytest.raises(PermissionError):
            stock.pipe_file(f"bucket/t/{entry}", b"round the guard")
        assert guarded.cat_file(f"bucket/t/{entry}") == b"mine"
    for entry in OVERWRITTEN[name]:
        for fs in (guarded, stock, guarded):
            fs.pipe_file(f"bucket/t/{entry}", b"again")


@_each(["paimon"])
def test_a_rename_commits_under_it(lake: Ground, name: str) -> None:
    fs = lake.mount(formats=[name])
    for number in (1, 2):
        fs.pipe_file("bucket/t/snapshot/.snapshot.tmp", b"mine")
        fs.mv("bucket/t/snapshot/.snapshot.tmp", f"bucket/t/snapshot/snapshot-{number}")
    with pytest.raises(PermissionError):
        lake.around.cp_file("bucket/t/snapshot/snapshot-2", "bucket/t/snapshot/snapshot-1")


@_each(["hudi"])
def test_hudi_commits_rolls_back_and_archives_under_it(lake: Ground, name: str) -> None:
    root = table_in(lake)
    writer = Writer(lake.mount(formats=[name]), root)
    writer.commits("20260101120000000")
    writer.begins("20260101120100000")
    writer.plans_rollback("20260101120200000", "20260101120100000")
    writer.fs.rm_file(writer.requested("20260101120100000"))
    writer.fs.pipe_file(writer.completed("20260101120200000", action="rollback"), b"{}")
    history = f"{root}/.hoodie/timeline/history"
    writer.fs.pipe_file(f"{history}/20260101120000000_20260101120000000_0.parquet", _parquet())
    writer.fs.pipe_file(f"{history}/manifest_1", b"{}")
    for number in range(2):
        writer.fs.pipe_file(f"{history}/_version_", b"%d" % number)
    for taken in (writer.requested("20260101120000000"), f"{history}/manifest_1"):
        with pytest.raises(PermissionError):
            lake.around.pipe_file(taken, b"round the guard")


def _parquet() -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"instantTime": ["20260101120000000"]}), file)
    return file.getvalue()


def test_it_is_the_plain_filesystem_that_is_refused() -> None:
    assert fsspec.get_filesystem_class("s3").__module__.startswith("s3fs")
