"""What a service is told, and what is wrong with it: said, not repeated, for it may be a credential."""

from __future__ import annotations

import json
from typing import Any

import pytest

from putifabsent.errors import ConfigError
from putifabsent.service import Settings
from putifabsent.service.mounts import Address, Caller, Mounts, Outside
from putifabsent.service.settings import Mounting
from tests.service.callers import SECRET

MOUNTS = [{"prefix": "memory://"}]
NOBODY = Caller("session", "writer")


def parsed(**more: Any) -> Settings:
    return Settings.parse(json.dumps({"secret": SECRET, "mounts": MOUNTS, **more}))


def test_it_listens_to_this_machine_alone_unless_told_otherwise() -> None:
    assert parsed().host == "127.0.0.1"
    assert parsed(host="0.0.0.0").host == "0.0.0.0"  # noqa: S104 - that is what is asked for


def test_the_secret_may_come_from_the_environment() -> None:
    text = json.dumps({"mounts": MOUNTS})
    assert Settings.parse(text, SECRET).secret[0].get_secret_value() == SECRET


def test_a_secret_is_not_shown() -> None:
    for settings in (parsed(), parsed(secret=["a new secret of enough characters", SECRET])):
        assert SECRET not in f"{settings!r} {settings} {settings.model_dump_json()}"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"secret": "too short"}, "secret"),
        ({"secret": [SECRET, "too short"]}, "secret"),
        ({"secret": []}, "secret"),
        ({"secret": {"too short": 1}}, "secret"),
        ({"mounts": []}, "mounts"),
        ({"mounts": [{"prefix": "no scheme"}]}, "mounts.0.prefix"),
        ({"mounts": [{"prefix": "memory://", "option": 1}]}, "mounts.0.option"),
        ({"port": 65536}, "port"),
        ({"concurrency": 0}, "concurrency"),
        ({"certificate": "cert.pem"}, "key"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_what_is_wrong_is_named(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field) as caught:
        parsed(**wrong)
    assert "too short" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_what_is_no_object_is_refused(text: str) -> None:
    for secret in (None, SECRET):
        with pytest.raises(ConfigError, match="settings"):
            Settings.parse(text, secret)


def test_an_unknown_scheme_or_option_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="hdfs:// is not known here"):
        Mounts([Mounting(prefix="hdfs://")])
    with pytest.raises(ConfigError, match="did you mean 'arbiter'"):
        Mounts([Mounting(prefix="memory://", options={"arbitre": "native"})])


@pytest.mark.parametrize(
    ("address", "prefix", "inside"),
    [
        ("s3a://lake/t/x", "s3a://", True),
        ("s3a://lake/t/x", "s3a://lake", True),
        ("s3a://lake/t/x", "s3a://lake/", True),
        ("s3a://lake2/t/x", "s3a://lake", False),
        ("s3://lake/t/x", "s3a://lake", False),
        ("file:/tmp/x", "file:///tmp", True),
        ("file:///tmp/x", "file:/tmp", True),
        ("file:/tmpx", "file:/tmp", False),
        ("abfs://c@one.dfs.core.windows.net/t", "abfs:", True),
        ("abfs://c@one.dfs.core.windows.net/t", "abfs://@one.dfs.core.windows.net/", True),
        ("abfs://c@one.dfs.core.windows.net/t", "abfs://c@one.dfs.core.windows.net/t", True),
        ("abfs://c@two.dfs.core.windows.net/t", "abfs://@one.dfs.core.windows.net/", False),
        ("abfs://c@one.dfs.core.windows.net/t", "abfs://d@one.dfs.core.windows.net/", False),
    ],
)
def test_a_prefix_ends_where_a_component_does(address: str, prefix: str, inside: bool) -> None:
    assert Address.of(prefix).holds(Address.of(address)) is inside


def test_the_longest_prefix_answers() -> None:
    mounts = Mounts(
        [
            Mounting(prefix="memory://", options={"deadline": 1.0}),
            Mounting(prefix="memory://a/b", options={"deadline": 2.0}),
        ]
    )
    found = {
        path: mounts.find(f"memory://{path}", NOBODY)[0].mount.options.deadline for path in ("a/c", "a/b/c")
    }
    assert found == {"a/c": 1.0, "a/b/c": 2.0}
    with pytest.raises(Outside):
        mounts.find("file:/tmp/x", NOBODY)


def test_each_account_of_azures_has_a_filesystem_of_its_own() -> None:
    mounts = Mounts([Mounting(prefix="abfss:", options={"account_key": "a2V5"})])
    hosts = ("one.dfs.core.windows.net", "two.dfs.core.chinacloudapi.cn")
    found = [mounts.find(f"abfss://lake@{host}/t/x", NOBODY) for host in hosts]
    assert [path for _, path in found] == ["lake/t/x", "lake/t/x"]
    assert [fs.fs.account_url for fs, _ in found] == [
        "https://one.blob.core.windows.net",
        "https://two.blob.core.chinacloudapi.cn",
    ]


@pytest.mark.parametrize(
    "authority", ["lake@evil.example.org", "lake@one.dfs.core.windows.net.example.org", "lake@", "lake"]
)
def test_credentials_go_to_no_other_host_than_azures(authority: str) -> None:
    mounts = Mounts([Mounting(prefix="abfss:", options={"account_key": "a2V5"})])
    with pytest.raises(Outside):
        mounts.find(f"abfss://{authority}/t/x", NOBODY)


@pytest.mark.parametrize(
    "options",
    [
        {"account_name": "one", "account_key": "a2V5"},
        {"connection_string": "DefaultEndpointsProtocol=https;AccountName=one;AccountKey=a2V5"},
    ],
)
def test_options_that_name_an_account_are_for_no_other(options: dict[str, Any]) -> None:
    mounts = Mounts([Mounting(prefix="abfs:", options=options)])
    for authority in ("lake", "lake@one.dfs.core.windows.net"):
        assert mounts.find(f"abfs://{authority}/t/x", NOBODY)[1] == "lake/t/x"
    with pytest.raises(Outside, match="those of one"):
        mounts.find("abfs://lake@two.dfs.core.windows.net/t/x", NOBODY)


def test_no_account_of_the_environments_is_taken_for_the_one_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountName=one;AccountKey=a2V5")
    mounts = Mounts([Mounting(prefix="abfss:", options={"account_key": "a2V5"})])
    fs, _ = mounts.find("abfss://lake@one.dfs.core.windows.net/t/x", NOBODY)
    assert fs.fs.service_client.account_name == "one"
    with pytest.raises(ConfigError, match=r"leads elsewhere than to two\.dfs"):
        mounts.find("abfss://lake@two.dfs.core.windows.net/t/x", NOBODY)
    with pytest.raises(ConfigError, match="leads elsewhere"):
        Mounts([Mounting(prefix="abfss:", options={"account_name": "two", "account_key": "a2V5"})])


def test_a_name_that_is_a_version_here_is_refused_for_a_caller_means_it_literally() -> None:
    mounts = Mounts([Mounting(prefix="s3a:", options={"anon": True}), Mounting(prefix="memory://")])
    log = "t?versionId=1/_delta_log/00000000000000000000.json"
    with pytest.raises(Outside):
        mounts.find(f"s3a://lake/{log}", NOBODY)
    for name in (f"memory://lake/{log}", "s3a://lake/t?#/_delta_log/00000000000000000000.json"):
        assert mounts.find(name, NOBODY)[1] == name.partition("://")[2]


def test_each_session_has_a_filesystem_of_its_own() -> None:
    mounts = Mounts([Mounting(prefix="memory://")])
    one, again, another = (
        mounts.find("memory://x", Caller(session, "writer"))[0] for session in ("a", "a", "b")
    )
    assert one is again
    assert (one.writer_session, another.writer_session) == ("a", "b")
    assert one.fs is another.fs, "the store's client is one for all"
