"""A store's word is taken where it is known to be good, and nowhere else without a probe."""

from __future__ import annotations

from typing import Any

import pytest

from putifabsent.backends.base import Verdict
from putifabsent.errors import ConfigError, UnsafeStore
from putifabsent.shim.arbiter_choice import check, needs_probe, validate

PUT = Verdict("put", safe=True, evidence="24 of 24 names had one winner")
COMPLETE = Verdict("complete", safe=False, evidence="7 of 8 names had more than one winner")


@pytest.mark.parametrize(
    ("kind", "host"),
    [
        ("s3", None),
        ("s3", "s3.amazonaws.com"),
        ("s3", "s3.eu-west-1.amazonaws.com"),
        ("s3", "S3.EU-WEST-1.AMAZONAWS.COM:443"),
        ("s3", "https://s3.eu-west-1.amazonaws.com"),
        ("s3", "bucket.s3.amazonaws.com."),
        ("s3", "vpce-1-2.s3.us-east-1.vpce.amazonaws.com"),
        ("s3", "s3.cn-north-1.amazonaws.com.cn"),
        ("s3", "s3.eusc-de-east-1.amazonaws.eu"),
        ("s3", "s3-us-west-2.amazonaws.com"),
        ("s3", "s3-fips.dualstack.us-gov-west-1.amazonaws.com"),
        ("s3", "s3express-use1-az4.us-east-1.amazonaws.com"),
        ("s3", "name-123.s3-accesspoint.us-west-2.amazonaws.com"),
        ("gcs", None),
        ("gcs", "storage.googleapis.com"),
        ("gcs", "https://storage.googleapis.com/"),
        ("azure", None),
        ("azure", "account.blob.core.windows.net"),
        ("azure", "account.blob.core.chinacloudapi.cn"),
        ("azure", "account.blob.core.usgovcloudapi.net"),
        ("azure", "account.z12.blob.storage.azure.net"),
        ("local", None),
        ("memory", None),
    ],
)
def test_the_clouds_themselves_need_no_probe(kind: str, host: str | None) -> None:
    assert not needs_probe("auto", kind, host)


@pytest.mark.parametrize(
    ("kind", "host"),
    [
        ("s3", "127.0.0.1:9000"),
        ("s3", "[::1]:9000"),
        ("s3", "minio.example.org"),
        ("s3", "account.r2.cloudflarestorage.com"),
        ("s3", "storage.googleapis.com"),
        ("s3", "notamazonaws.com"),
        ("s3", "ec2-198-51-100-7.compute-1.amazonaws.com:9000"),
        ("s3", "ec2-198-51-100-7.eu-west-1.compute.amazonaws.com"),
        ("s3", "s3-proxy-123.us-east-1.elb.amazonaws.com"),
        ("s3", "s3-proxy-123.elb.us-east-1.amazonaws.com"),
        ("s3", "abc.execute-api.us-east-1.amazonaws.com"),
        ("s3", "amazonaws.com.example.org"),
        ("s3", "http://example.org/s3.amazonaws.com"),
        ("s3", "s3.amazonaws.com@example.org"),
        ("s3", ""),
        ("gcs", "127.0.0.1:4443"),
        ("gcs", "googleapis.com.example.org"),
        ("azure", "127.0.0.1:10000"),
        ("azure", "blob.core.windows.net.example.org"),
        ("ftp", None),
    ],
)
def test_any_other_endpoint_is_probed_unless_the_user_says_native(kind: str, host: str | None) -> None:
    assert needs_probe("auto", kind, host)
    assert not needs_probe("native", kind, host)


@pytest.mark.parametrize("arbiter", ["auto", "native", "ballot", "redis://h", "DynamoDB://table?region=x"])
def test_an_arbiter_is_a_word_or_an_address(arbiter: str) -> None:
    validate(arbiter, ["dynamodb", "redis"])


@pytest.mark.parametrize(
    ("arbiter", "meant"),
    [
        ("nativ", "'native'"),
        ("balot", "'ballot'"),
        ("reddis://h", r"'redis://\.\.\.'"),
        ("redis", "'redis://"),
    ],
)
def test_a_misspelt_arbiter_is_refused_with_the_nearest_one(arbiter: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=rf"unknown arbiter '{arbiter[:5]}.*did you mean {meant}"):
        validate(arbiter, ["dynamodb", "redis"])


@pytest.mark.parametrize("arbiter", ["etcd://host", "", 3, None])
def test_an_unknown_arbiter_is_refused_with_those_there_are(arbiter: Any) -> None:
    with pytest.raises(ConfigError, match=r"arbiter"):
        validate(arbiter, ["redis"])


@pytest.mark.parametrize("arbiter", ["etcd://me:secret@host", "redis:/me:secret@host", "secret@host"])
def test_an_address_that_is_refused_is_not_repeated_with_its_password(arbiter: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(arbiter, ["redis"])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("arbiter", ["ballot", "dynamodb://table"])
def test_what_another_arbiter_rests_on_is_probed_where_the_store_is_not_known(arbiter: str) -> None:
    assert needs_probe(arbiter, "s3", "127.0.0.1:9000")
    assert not needs_probe(arbiter, "s3", "s3.amazonaws.com")
    assert not needs_probe(arbiter, "local", None)


def test_a_store_on_which_no_arbiter_can_rest_is_refused() -> None:
    listing = Verdict("list", safe=False, evidence="9 keys were not listed")
    with pytest.raises(UnsafeStore, match=r"the arbiter ballot rests on.*list: 9 keys") as caught:
        check("ballot", {"list": listing}, "http://127.0.0.1:9000")
    assert 'arbiter="native"' not in str(caught.value)


def test_an_unsafe_store_is_refused_with_the_evidence_and_what_to_configure() -> None:
    with pytest.raises(UnsafeStore) as caught:
        check("auto", {"put": PUT, "complete": COMPLETE}, "http://127.0.0.1:9000")
    said = str(caught.value)
    assert "http://127.0.0.1:9000" in said
    assert "complete: 7 of 8 names had more than one winner" in said
    assert 'arbiter="native"' in said
    assert 'arbiter="ballot"' in said
    assert "put:" not in said


def test_every_unsafe_operation_is_named() -> None:
    put = Verdict("put", safe=False, evidence="an existing object was overwritten")
    with pytest.raises(UnsafeStore, match=r"put: an existing.*; complete: 7 of 8"):
        check("auto", {"put": put, "complete": COMPLETE}, "x")


def test_a_store_in_which_no_fault_was_found_is_relied_on() -> None:
    check("auto", {"put": PUT, "complete": Verdict("complete", safe=True, evidence="")}, "x")
