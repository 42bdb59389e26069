"""A registry is found by its URL; what is wrong in one is said, and its credentials are not."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

from putifabsent.backends.redis import RedisLock, sender_of
from putifabsent.backends.registry_urls import (
    ask_environment,
    is_claims,
    open_claims,
    open_counter,
    open_lock,
    redis_settings,
)
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "hush-hush"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("REDIS_USERNAME", "REDIS_PASSWORD", "SENTINEL_USERNAME", "SENTINEL_PASSWORD", "ARBITER"):
        monkeypatch.delenv(f"PUTIFABSENT_{variable}", raising=False)


@pytest.mark.parametrize(
    ("url", "hosts", "shown"),
    [
        ("redis://host", (("host", 6379),), "redis://host:6379/0"),
        ("redis://host:7000/3", (("host", 7000),), "redis://host:7000/3"),
        ("REDIS://host/3", (("host", 6379),), "redis://host:6379/3"),
        ("redis://[::1]:7000/3", (("::1", 7000),), "redis://[::1]:7000/3"),
        ("redis://[::1]", (("::1", 6379),), "redis://[::1]:6379/0"),
        ("valkey://user:hush@host", (("host", 6379),), "valkey://host:6379/0"),
        ("rediss://user:hush@host:7000", (("host", 7000),), "rediss://host:7000/0"),
        (
            "redis+sentinel://:hush@a:1,b,[::1]:2/lab/4",
            (("a", 1), ("b", 26379), ("::1", 2)),
            "redis+sentinel://a:1,b:26379,[::1]:2/lab/4",
        ),
        ("redis+sentinel://a/lab", (("a", 26379),), "redis+sentinel://a:26379/lab/0"),
        ("redis+cluster://a:1,b", (("a", 1), ("b", 6379)), "redis+cluster://a:1,b:6379"),
    ],
)
def test_a_url_says_where_a_redis_is(url: str, hosts: object, shown: str) -> None:
    settings = redis_settings(url)
    assert settings.hosts == hosts
    assert settings.shown == shown
    assert settings.is_tls == url.startswith("rediss")


def test_a_socket_is_a_path() -> None:
    settings = redis_settings("unix://user:hush@/run/my%20redis.sock?db=5")
    assert (settings.path, settings.db) == ("/run/my redis.sock", 5)
    assert (settings.username, settings.password) == ("user", "hush")


def test_credentials_are_unescaped() -> None:
    settings = redis_settings("redis://us%40er:a%2Fb%3Ac%40d@host")
    assert (settings.username, settings.password) == ("us@er", "a/b:c@d")


def test_what_a_url_says_overrules_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUTIFABSENT_REDIS_PASSWORD", "environment's")
    monkeypatch.setenv("PUTIFABSENT_SENTINEL_PASSWORD", "environment's, too")
    url = "redis+sentinel://{}a/lab{}"
    said = redis_settings(url.format(":url's@", "?sentinel_password=url's, too"))
    assert (said.password, said.sentinel_password) == ("url's", "url's, too")
    silent = redis_settings(url.format("", ""))
    assert (silent.password, silent.sentinel_password) == ("environment's", "environment's, too")


def test_encryption_checks_certificates_unless_told_otherwise() -> None:
    assert redis_settings("rediss://host").tls == {"ssl_cert_reqs": "required", "ssl_check_hostname": True}
    own = redis_settings("rediss://host?ssl_ca_certs=/ca.pem&ssl_check_hostname=false")
    assert own.tls == {
        "ssl_cert_reqs": "required", "ssl_ca_certs": "/ca.pem", "ssl_check_hostname": False
    }  # fmt: skip
    trusting = redis_settings("rediss+cluster://host?ssl_cert_reqs=none")
    assert trusting.tls == {"ssl_cert_reqs": "none", "ssl_check_hostname": False}


@pytest.mark.parametrize("url", ["rediss://127.0.0.1:1", "rediss+sentinel://127.0.0.1:1/lab"])
def test_an_encrypted_connection_is_never_a_plain_one(url: str) -> None:
    send = sender_of(redis_settings(url))
    assert isinstance(send, partial)
    assert "SSL" in send.args[0].connection_class.__name__


WRONG = {
    "no scheme": ("host:6379", "begins with dynamodb, redis"),
    "unknown scheme": ("rediz://host", "did you mean redis://"),
    "hyphen": ("redis-sentinel://a/lab", r"did you mean redis\+sentinel://"),
    "no host": ("redis://", "names its host"),
    "no hosts": ("redis+cluster://a,", "names its host"),
    "two hosts": ("redis://a,b", r"one host; for more see redis\+sentinel"),
    "bad port": ("redis://a:port", "port in the URL is no number"),
    "bad database": ("redis://a/db", "database in the URL is no number"),
    "long path": ("redis://a/0/1", "too many steps"),
    "cluster's database": ("redis+cluster://a/1", "too many steps"),
    "no service": ("redis+sentinel://a", "lacks the service"),
    "no socket": ("unix://", "the path of a socket"),
    "socket on a host": ("unix://host/socket", "the path of a socket"),
    "unknown option": ("redis://a?timeuot=3", "unknown option 'timeuot'.*did you mean 'timeout'"),
    "option of another": ("redis://a?ssl_ca_certs=/ca", "unknown option 'ssl_ca_certs'"),
    "bad time": ("redis://a?timeout=soon", "positive number of seconds, not 'soon'"),
    "no time": ("redis://a?timeout=0", "positive number of seconds"),
    "bad flag": ("rediss://a?ssl_check_hostname=maybe", "true or false"),
    "bad demand": ("rediss://a?ssl_cert_reqs=please", "required, optional or none"),
    "unescaped": (f"redis://user:a?{SECRET}@host", "in its options.*%3F"),
    "unescaped option": (f"redis://:a?{SECRET}=x@host", "in its options.*%3F"),
    "unescaped options": (f"redis://:a?{SECRET}&timeout=1@host", "in its options.*%3F"),
    "unescaped time": (f"redis://a?timeout={SECRET}@host", "number of seconds;.*%3F"),
    "unescaped slash": (f"redis://user:a/{SECRET}@host/0", "in its path.*%2F"),
    "claims": ("dynamodb://table", "dynamodb:// has no locks"),
}


@pytest.mark.parametrize(("url", "says"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_in_a_lock_s_url_is_said(url: str, says: str) -> None:
    _refuses(open_lock, url, says)


WRONG_TABLES = {
    "no table": ("dynamodb://", "the name of a table"),
    "short": ("dynamodb://ab", "3 to 255"),
    "odd": ("dynamodb://my table", "3 to 255"),
    "path": ("dynamodb://table/1", "3 to 255"),
    "unknown option": ("dynamodb://table?regoin=x", "unknown option 'regoin'.*did you mean 'region'"),
    "key": (f"dynamodb://key:{SECRET}@table", "AWS's own chain"),
    "unescaped key": (f"dynamodb://key:a/{SECRET}@table", "the name of a table"),
    "endpoint's key": (f"dynamodb://table?endpoint_url=http://key:{SECRET}@host", "takes no credentials"),
    "endpoint": ("dynamodb://table?endpoint_url=host:8000", "http:// or https://"),
    "broken endpoint": ("dynamodb://table?endpoint_url=http://[", "http:// or https://"),
    "bad time": ("dynamodb://table?region=x&timeout=-1", "positive number of seconds"),
    "lock": (f"redis://:{SECRET}@a", "a lock, which decides nothing"),
    "nothing": ("", "begins with dynamodb"),
}


@pytest.mark.parametrize(("url", "says"), WRONG_TABLES.values(), ids=WRONG_TABLES)
def test_what_is_wrong_in_a_table_s_url_is_said(url: str, says: str) -> None:
    _refuses(open_claims, url, says)


WRONG_COUNTERS = {key: WRONG[key] for key in ("unknown scheme", "two hosts", "bad time")} | {
    key: WRONG_TABLES[key] for key in ("short", "unknown option", "key", "endpoint's key")
}


@pytest.mark.parametrize(("url", "says"), WRONG_COUNTERS.values(), ids=WRONG_COUNTERS)
def test_what_is_wrong_in_a_counter_s_url_is_said(url: str, says: str) -> None:
    _refuses(open_counter, url, says)


def test_a_counter_is_found_by_its_url() -> None:
    table = "dynamodb://my-table?region=eu-west-1&endpoint_url=http://127.0.0.1:8000"
    assert repr(open_counter(f"{table}&timeout=3")) == f"<DynamoDBCounter {table}>"
    assert repr(open_counter(f"valkey://:{SECRET}@host")) == "<RedisCounter valkey://host:6379/0>"


def test_a_table_is_found_by_its_url() -> None:
    url = "dynamodb://my-table?region=eu-west-1&endpoint_url=http://127.0.0.1:8000"
    assert repr(open_claims(f"{url}&timeout=3")) == f"<DynamoDBClaims {url}>"
    assert is_claims(url)
    assert not is_claims("redis://host")


def test_settings_show_no_credentials() -> None:
    url = f"redis+sentinel://user:{SECRET}@a/lab?sentinel_password={SECRET}"
    settings = redis_settings(url)
    assert SECRET in (settings.password or "")
    assert SECRET not in f"{settings!r} {settings.shown} {RedisLock(settings)!r}"


def test_the_url_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="PUTIFABSENT_ARBITER"):
        ask_environment(None)
    monkeypatch.setenv("PUTIFABSENT_ARBITER", "redis://from-the-environment")
    assert ask_environment(None) == "redis://from-the-environment"
    assert ask_environment("redis://said") == "redis://said"


@pytest.mark.parametrize(
    ("url", "missing", "extra"),
    [("redis://a", "redis", "redis"), ("dynamodb://table?region=x", "aiobotocore", "dynamodb")],
)
@pytest.mark.parametrize("opens", ["open_claims if is_claims({url!r}) else open_lock", "open_counter"])
def test_a_missing_client_is_named_with_its_extra(url: str, missing: str, extra: str, opens: str) -> None:
    code = f"""
import sys
sys.modules[{missing!r}] = None
from putifabsent.backends.registry_urls import is_claims, open_claims, open_counter, open_lock
try:
    ({opens.format(url=url)})({url!r})
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.startswith("ConfigError ")
    assert f"putifabsent[{extra}]" in done.stdout


def test_contracts_and_urls_import_no_client() -> None:
    """A mount of another kind must not need them."""
    code = """
import sys
import putifabsent.backends.registries, putifabsent.backends.registry_urls
print(sorted({"redis", "aiobotocore", "botocore", "aiohttp"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


def _refuses(opens: Callable[[str], object], url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        opens(url)
    chain: BaseException | None = refused.value
    while chain is not None:
        assert SECRET not in str(chain)
        chain = chain.__cause__ or chain.__context__
