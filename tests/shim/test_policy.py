"""What a mount's options make of names."""

from __future__ import annotations

import pickle
import re
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from putifabsent.errors import ConfigError
from putifabsent.shim.formats.hudi_ledger import step_in
from putifabsent.shim.formats.hudi_salt import parsed
from putifabsent.shim.names import Name, Role, Rule, is_state, ordinary
from putifabsent.shim.policy import GRAMMARS, RULES, Policy
from tests.shim.folders import LOOKALIKES, components, roots

POLICY = Policy()
EXAMPLES = [rule for rules in RULES.values() for rule in rules]
GUARDED = [rule.example for rule in EXAMPLES if rule.guarded]

ALL_SORTS = (
    *LOOKALIKES,
    ".hoodie",
    "_delta_log",
    "_spark_metadata",
    "0",
    "00000000000000000003.json",
    "20260101120000000.commit",
    "20260101120000000.commit.requested",
    "20260101120000000_20260101120003000.savepoint",
    "3",
    "3.compact",
    "changelog-3",
    "manifest_3",
    "schema-0",
    "schema-3",
    "v3.gz.metadata.json",
)
anything = st.builds(
    lambda above, parts: above + "/".join(parts),
    st.sampled_from(["", "/", "bucket/", "bucket/x.db/t/"]),
    st.lists(st.one_of(st.sampled_from(ALL_SORTS), components), min_size=1, max_size=6),
)


@pytest.mark.parametrize("rule", EXAMPLES, ids=lambda rule: rule.pattern_text)
def test_every_printed_rule_is_what_the_policy_does(rule: Rule) -> None:
    name = POLICY.classify(rule.example)
    assert (name.role, name.guarded) == (rule.role, rule.guarded)
    assert rule in RULES[name.format or ""]


@pytest.mark.parametrize("rule", EXAMPLES, ids=lambda rule: rule.pattern_text)
def test_a_printed_rule_says_where_the_identity_is_not_the_name(rule: Rule) -> None:
    name = POLICY.classify(rule.example)
    own = name.identity == name.path and not name.aliases
    assert own == (rule.identity_text == "the name")


@pytest.mark.parametrize(
    "rule", [rule for rule in EXAMPLES if rule.guarded], ids=lambda rule: rule.pattern_text
)
def test_a_printed_rule_says_where_evidence_is_asked_for(rule: Rule) -> None:
    assert bool(POLICY.classify(rule.example).evidence) == rule.note.startswith("with ")


@given(anything)
def test_all_names_of_an_identity_agree_about_it(path: str) -> None:
    name = POLICY.classify(path)
    assert name.path == path
    for alias in name.aliases:
        other = POLICY.classify(alias)
        assert (other.identity, other.canonical, other.table) == (name.identity, name.canonical, name.table)
        assert (other.guarded, other.evidence, other.unless) == (name.guarded, name.evidence, name.unless)
        assert {other.path, *other.aliases} == {name.path, *name.aliases}
    assert name.canonical in (name.path, *name.aliases)


@given(anything)
def test_a_predecessor_is_guarded_one_number_below(path: str) -> None:
    name = POLICY.classify(path)
    if name.series is None:
        return
    assert name.guarded
    assert bool(name.series.predecessors) == (name.series.number > name.series.first)
    assert name.series.number_of(path) == name.series.number
    for predecessor in name.series.predecessors:
        before = POLICY.classify(predecessor)
        assert (before.role, before.guarded, before.table) == (name.role, True, name.table)
        assert before.series is not None
        assert before.series.number == name.series.number - 1


@given(anything, anything)
def test_an_identity_belongs_to_one_table(one: str, other: str) -> None:
    first, second = POLICY.classify(one), POLICY.classify(other)
    if first.identity == second.identity:
        assert (first.format, first.table) == (second.format, second.table)


@given(anything)
def test_an_unguarded_name_is_its_own_identity(path: str) -> None:
    name = POLICY.classify(path)
    if not name.guarded:
        assert (name.identity, name.aliases, name.series, name.evidence) == (path, (), None, ())
        assert (name.unless, name.replaced) == ((), False)


@given(anything)
def test_evidence_lies_in_the_table_and_is_not_the_name(path: str) -> None:
    name = POLICY.classify(path)
    for evidence in name.evidence:
        assert evidence.startswith(f"{name.table}/")
        assert evidence != path


@given(anything, st.lists(components, max_size=3))
def test_what_the_shim_keeps_for_itself_is_never_guarded(path: str, inside: list[str]) -> None:
    everything = Policy(guard="**")
    for policy in (POLICY, everything):
        for kept in (f".putifabsent/{path.lstrip('/')}", f"{path}/.putifabsent/{'/'.join([*inside, 'x'])}"):
            assert policy.classify(kept) == ordinary(kept)


@given(roots, components)
def test_an_ordinary_file_is_left_alone(root: str, last: str) -> None:
    path = f"{root}/folder/{last}.csv"
    assert POLICY.classify(path) == Name(path, Role.OTHER, None, None, path, guarded=False)


@pytest.mark.parametrize("path", ["", "/", "//", "x", "/x", "x/", "bucket//", "bucket//x", ".", "..", "a/.."])
def test_a_name_that_is_none_is_left_alone(path: str) -> None:
    assert POLICY.classify(path) == ordinary(path)


def test_an_ordinary_name_is_built_like_any_other() -> None:
    name = ordinary("bucket/a.csv")
    assert name == Name("bucket/a.csv", Role.OTHER, None, None, "bucket/a.csv", guarded=False)
    assert hash(name) == hash(Name("bucket/a.csv", Role.OTHER, None, None, "bucket/a.csv", guarded=False))
    assert pickle.loads(pickle.dumps(name)) == name
    assert name.canonical == "bucket/a.csv"


@pytest.mark.parametrize("path", GUARDED)
def test_a_name_pickles(path: str) -> None:
    name = POLICY.classify(path)
    assert pickle.loads(pickle.dumps(name)) == name


@pytest.mark.parametrize(
    ("path", "state"),
    [
        ("bucket/t/_delta_log/00000000000000000003.json", "bucket/t/.putifabsent"),
        ("bucket/t/.hoodie/timeline/1.commit", "bucket/t/.hoodie/.putifabsent"),
        ("bucket/t/.hoodie/metadata/.hoodie/1.commit", "bucket/t/.hoodie/metadata/.hoodie/.putifabsent"),
        ("bucket/d.db/t/branch/branch-b/snapshot/snapshot-3", "bucket/d.db/t/.putifabsent"),
        ("/snapshot/snapshot-3", "/.putifabsent"),
        ("bucket/a/b.csv", "bucket/a/.putifabsent"),
        ("/b.csv", "/.putifabsent"),
        # Below a log: mounts of all versions must look in one place.
        ("bucket/t/_delta_log/jobs/a.lock", "bucket/t/_delta_log/jobs/.putifabsent"),
        ("bucket/t/_delta_log/jobs/1.lock", "bucket/t/.putifabsent"),
        ("bucket/t/_delta_log/_sidecars/a.parquet", "bucket/t/.putifabsent"),
        ("bucket/t/_delta_log/snapshot/a", "bucket/t/.putifabsent"),
    ],
)
def test_the_shim_keeps_its_state_in_the_tables_root_or_beside_the_name(path: str, state: str) -> None:
    assert POLICY.classify(path).state == state


# --- formats ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", GUARDED)
def test_a_mount_that_names_a_format_asks_for_no_evidence(path: str) -> None:
    auto = POLICY.classify(path)
    assert auto.format is not None
    named = Policy([auto.format]).classify(path)
    assert named.guarded
    assert named.evidence == ()
    assert (named.identity, named.aliases, named.series) == (auto.identity, auto.aliases, auto.series)


@pytest.mark.parametrize("path", GUARDED)
def test_a_mount_that_names_other_formats_leaves_a_name_alone(path: str) -> None:
    own = POLICY.classify(path)
    others = [name for name in GRAMMARS if name != own.format]
    for policy in (Policy(others), Policy("none"), Policy([])):
        name = policy.classify(path)
        # Or two mounts would decide of it in two places.
        of_place = ordinary(path)._replace(table=name.table, aliases=own.aliases, rank=own.rank)
        assert name._replace(identity=path) == of_place
        assert (name.state, name.canonical) == (own.state, own.canonical)


def test_formats_may_be_said_in_any_order_and_in_one_string() -> None:
    assert len({Policy(list(order)) for order in permutations(["spark", "hudi", "delta"])}) == 1
    assert Policy("spark, Hudi") == Policy(["hudi", "spark"]) != Policy(["hudi"])
    assert Policy(["auto"]) == Policy("auto") == Policy()
    assert Policy(["none"]) == Policy("none") == Policy(())


def test_all_formats_named_are_not_auto() -> None:
    assert Policy(list(GRAMMARS)) != Policy()


@pytest.mark.parametrize(
    ("said", "near"),
    [("sparks", "spark"), ("icebreg", "iceberg"), (["delta", "payment"], "paimon"), ("atuo", "auto")],
)
def test_an_unknown_format_is_refused_with_the_nearest(said: str | list[str], near: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean '{near}'"):
        Policy(said)


def test_an_unknown_format_that_is_near_to_none_is_refused_with_all() -> None:
    with pytest.raises(ConfigError, match="choose from hudi, delta, iceberg, paimon, spark, auto, none"):
        Policy("lance-db")


@pytest.mark.parametrize("said", ["", None, 3, [None], ["auto", "spark"], ["none", "hudi"]])
def test_formats_that_name_none_are_refused(said: object) -> None:
    with pytest.raises(ConfigError, match="format"):
        Policy(said)  # type: ignore[arg-type]


# --- patterns of the user's ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("**/manifest-*", "bucket/t/manifest-3", True),
        ("**/manifest-*", "bucket/manifest-3", True),
        ("**/manifest-*", "/manifest-3", True),
        ("**/manifest-*", "bucket/t/manifest-3/x", False),
        ("**/manifest-*", "bucket/t/xmanifest-3", False),
        ("manifest-*", "bucket/t/manifest-3", True),
        ("bucket/*/manifest-*", "bucket/t/manifest-3", True),
        ("bucket/*/manifest-*", "bucket/t/u/manifest-3", False),
        ("bucket/**/manifest-*", "bucket/t/u/manifest-3", True),
        ("bucket/**/manifest-*", "bucket/manifest-3", True),
        ("bucket/**/manifest-*", "other/t/manifest-3", False),
        ("bucket/**", "bucket/t/u", True),
        ("bucket/**", "bucket", False),
        ("bucket/t/", "bucket/t/u/v", True),
        ("bucket/t/", "bucket/t", False),
        ("t/", "bucket/t/u/v", True),
        ("/t/", "bucket/t/u/v", False),
        ("bucket/t/*", "bucket/t/u/v", False),
        ("bucket/t/*", "bucket/t/.hidden", True),
        ("/data/t/*.json", "/data/t/1.json", True),
        ("data/t/*.json", "/data/t/1.json", True),
        ("/bucket/*", "bucket/x", True),
        ("**/v?.json", "bucket/v3.json", True),
        ("**/v?.json", "bucket/v33.json", False),
        ("bucket/t?x", "bucket/t/x", False),
        ("**/[0-9][0-9].json", "bucket/07.json", True),
        ("**/[0-9][0-9].json", "bucket/0a.json", False),
        ("**/[!0-9]*", "bucket/x", True),
        ("**/[!0-9]*", "bucket/7", False),
        ("bucket[!a]x", "bucket/x", False),
        ("**/[*]", "bucket/*", True),
        ("**/[*]", "bucket/x", False),
        ("**/[]", "bucket/[]", True),
        ("**/[]]", "bucket/]", True),
        ("**/[!]]", "bucket/]", False),
        ("**/[!]", "bucket/!", True),
        ("bucket[.-0]x", "bucket/x", False),
        ("bucket[.-0]x", "bucket.x", True),
        ("**/a.b", "bucket/axb", False),
        ("**/a+(b)", "bucket/a+(b)", True),
        ("**/[^a]", "bucket/^", True),
        ("**/[^a]", "bucket/b", False),
        ("**/a\\*", "bucket/a\\x", True),
        ("**", "bucket/x", True),
        ("**/x", "bucket/a\nb/x", True),
        ("**/a*", "bucket/a\nb", True),
        ("**/a", "bucket/a\n", False),
    ],
)
def test_a_pattern_matches_as_fsspec_and_git_say(pattern: str, path: str, matches: bool) -> None:
    name = Policy(guard=pattern).classify(path)
    assert name == Name(path, Role.OTHER, None, None, path, guarded=matches)


@given(anything)
def test_a_pattern_guards_a_name_whatever_lies_beside_it(path: str) -> None:
    auto, name = POLICY.classify(path), Policy(guard=["**"]).classify(path)
    if not path.strip("/"):
        return
    assert name.guarded
    assert not name.depends
    if auto.guarded and not auto.evidence:
        assert name == auto._replace(unless=())
    else:
        assert name == auto.unproven()._replace(guarded=True)
        assert name.state == auto.state


@given(anything)
def test_a_pattern_that_does_not_match_changes_nothing(path: str) -> None:
    assert Policy(guard="**/no such name").classify(path) == POLICY.classify(path)


def test_any_of_several_patterns_is_enough() -> None:
    policy = Policy("none", ["**/a-*", "**/b-*"])
    assert [policy.classify(f"bucket/{each}").guarded for each in ("a-1", "b-1", "c-1")] == [
        True,
        True,
        False,
    ]


def test_one_pattern_may_be_said_as_a_string() -> None:
    assert Policy(guard="**/a-*") == Policy(guard=["**/a-*"]) != Policy()


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("s3://bucket/*", "protocol"),
        ("", "empty component"),
        ("/", "empty component"),
        ("a//b", "empty component"),
        ("a**b", "inside a component"),
        ("a/***/b", "inside a component"),
        ("**/[z-a]", "can't be matched"),
    ],
)
def test_a_pattern_that_could_match_nothing_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Policy(guard=pattern)


@pytest.mark.parametrize("said", [None, 3, [None]])
def test_patterns_that_are_none_are_refused(said: object) -> None:
    with pytest.raises(ConfigError, match="guard"):
        Policy(guard=said)  # type: ignore[arg-type]


# --- a policy is a value ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy",
    [Policy(), Policy("none"), Policy(["spark", "hudi"]), Policy("delta", ["**/m-*", "x/"])],
    ids=repr,
)
def test_a_policy_pickles_and_hashes(policy: Policy) -> None:
    again = pickle.loads(pickle.dumps(policy))
    assert again == policy
    assert hash(again) == hash(policy)
    for path in ("bucket/t/m-1", *GUARDED):
        assert again.classify(path) == policy.classify(path)


def test_a_policy_can_not_be_changed() -> None:
    with pytest.raises(AttributeError):
        POLICY.guard = ("**",)  # type: ignore[misc]


# --- which names need be asked about

SALT = "0123456789abcdef" * 2
JOB = "b5068208-e1a4-11e6-bf01-fe55135034f3"
asked_about = st.builds(
    lambda above, parts: above + "/".join(parts),
    st.sampled_from(["", "/", "bucket/", "bucket/t/.hoodie/", "bucket/t/.hoodie/timeline/"]),
    st.lists(
        st.one_of(
            st.sampled_from(
                (
                    *ALL_SORTS,
                    ".putifabsent",
                    "20260101120000000.inflight",
                    f"20260101120000000.commit.requested~{SALT}",
                    f"20260101120000000_20260101120003000.commit~{SALT}",
                    "20260101120000000_20260102120000000_0.parquet",
                    "f-0_1-0-1_20260101120000000.parquet",
                    f"f-0_1-0-1-{SALT}_20260101120000000.orc",
                    ".f-0_20260101120000000.log.1_1-0-1",
                )
            ),
            components,
        ),
        min_size=1,
        max_size=6,
    ),
)


@pytest.mark.parametrize("rule", EXAMPLES, ids=lambda rule: rule.pattern_text)
def test_each_printed_name_that_is_guarded_or_a_step_is_asked_about(rule: Rule) -> None:
    asked = rule.guarded or rule.role in (Role.INSTANT, Role.SLICE)
    assert bool(re.fullmatch(POLICY.pattern, rule.example)) == asked


@pytest.mark.parametrize(
    "path",
    [
        f"bucket/t/.hoodie/timeline/20260101120000000.commit.requested~{SALT}",
        f"bucket/t/.hoodie/20260101120000000_20260101120003000.commit~{SALT}",
        "bucket/t/.hoodie/metadata/.hoodie/20260101120000000.deltacommit.requested",
        f"bucket/t/f-0_1-0-1-{SALT}_20260101120000000.parquet",
        "bucket/t/.hoodie/.putifabsent/ledger/3",
        ".putifabsent/x",
        "bucket/.putifabsent",
    ],
)
def test_what_the_shim_makes_of_names_is_asked_about(path: str) -> None:
    assert re.fullmatch(POLICY.pattern, path)


@given(
    path=st.one_of(anything, asked_about),
    formats=st.sampled_from(["auto", "none", "spark", "delta,hudi"]),
    guard=st.sampled_from([(), ("**/manifest-*",), ("x*/[!a]?",)]),
)
def test_a_name_that_nobody_need_ask_about_concerns_nobody(
    path: str, formats: str, guard: tuple[str, ...]
) -> None:
    policy = Policy(formats, guard)
    if not re.fullmatch(policy.pattern, path):
        name = policy.classify(path)
        assert not name.guarded
        assert step_in(name) is None
        assert parsed(policy.classify, path) is None
        assert not is_state(path)


def _parquet_job(files: int) -> list[str]:
    """Return what a Parquet job of Spark's writes, renames and removes, one by one, with its targets."""
    said = ["bucket/out/_SUCCESS", "bucket/out/_temporary/0"]
    for number in range(files):
        attempt = f"bucket/out/_temporary/0/_temporary/attempt_202601011200001234_0001_m_{number:06}_{number}"
        task = f"bucket/out/_temporary/0/task_202601011200001234_0001_m_{number:06}"
        part = f"dt=2026-01-01/part-{number:05}-{JOB}.c000.snappy.parquet"
        said += [attempt, f"{attempt}/{part}", task, f"{task}/{part}", f"bucket/out/{part}"]
    return said


def test_a_plain_job_asks_about_none_of_its_files() -> None:
    asked = re.compile(POLICY.pattern)
    job = _parquet_job(100)
    assert len(job) == 502
    assert [path for path in job if asked.fullmatch(path)] == []


@pytest.mark.parametrize(
    "path",
    [
        f"bucket/t/part-00000-{JOB}-c000.snappy.parquet",
        f"bucket/t/deletion_vector_{JOB}.bin",
        "bucket/t/_delta_log/00000000000000000010.checkpoint.parquet",
        "bucket/t/_delta_log/_last_checkpoint",
        f"bucket/t/data/00000-0-{JOB}-00001.parquet",
        f"bucket/t/metadata/{JOB}-m0.avro",
        f"bucket/t/metadata/snap-1-1-{JOB}.avro",
        "bucket/t/metadata/version-hint.text",
        f"bucket/t/bucket-0/data-{JOB}-0.parquet",
        f"bucket/t/manifest/manifest-{JOB}-0",
        f"bucket/t/snapshot/.snapshot-3.{JOB}.tmp",
        "bucket/t/snapshot/LATEST",
        f"bucket/checkpoint/offsets/.3.{JOB}.tmp",
        "bucket/checkpoint/state/0/0/3.delta",
        f"bucket/t/.hoodie/.temp/20260101120000000/dt=1/{JOB}-0_1-0-1_20260101120000000.parquet.marker.CREATE",
        "bucket/t/.hoodie/.temp/20260101120000000/MARKERS0",
        "bucket/t/.hoodie/.heartbeat/20260101120000000",
        "bucket/t/.hoodie/hoodie.properties",
        "bucket/t/.hoodie/metadata/files/.files-0000-0_20260101120000000001.log.1_0-1-0",
        "bucket/t/.hoodie/metadata/files/files-0000-0_0-1-0_20260101120000000001.hfile",
    ],
)
def test_what_formats_write_once_or_over_again_need_not_be_asked_about(path: str) -> None:
    assert not re.fullmatch(POLICY.pattern, path)
