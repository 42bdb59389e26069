"""The tests of registries find out each registry that is wrong."""

from __future__ import annotations

import inspect
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.backends.dynamodb import DynamoDBClaims, DynamoDBCounter
from putifabsent.backends.redis import RedisCounter, RedisLock
from putifabsent.backends.registry_urls import redis_settings
from putifabsent.testing import CounterTests, LockTests, asking
from putifabsent.testing.asking import Registry
from tests.backends import dynamodb_servers, test_dynamodb, test_dynamodb_counter, test_redis_counter
from tests.backends.registry_mutants import CLAIMS, DYNAMODB_COUNTERS, LOCKS, REDIS_COUNTERS, Mutant
from tests.fault_proxy import FaultProxy
from tests.servers import Moto, Valkey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    with Valkey() as running:
        yield running


@pytest.fixture(autouse=True)
def credentials() -> Iterator[None]:
    with dynamodb_servers.credentials_of_the_lab():
        yield


@pytest.mark.parametrize("mutant", LOCKS, ids=str)
def test_a_test_finds_out_each_wrong_lock(mutant: Mutant, valkey: Valkey) -> None:
    for kind, is_wrong in ((RedisLock, False), (mutant.registry(RedisLock), True)):
        lock = kind(redis_settings(valkey.endpoint))
        test = getattr(LockTests(), mutant.caught_by)
        given = {"lock": lock, "ask": Registry(lock, "sync"), "key": f"test://{uuid.uuid4()}/name"}
        assert _fails(test, given) == is_wrong


@pytest.mark.parametrize("mutant", CLAIMS, ids=str)
def test_a_test_finds_out_each_wrong_registry_of_claims(
    mutant: Mutant, moto: Moto, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = _test_of_claims(mutant.caught_by)
    for kind, is_wrong in ((DynamoDBClaims, False), (mutant.registry(DynamoDBClaims), True)):
        with FaultProxy(moto.endpoint, speech="dynamodb") as proxy:
            # Made by the right one: what is wrong is to be seen where it is used.
            made = dynamodb_servers.claims_at(proxy.endpoint)
            made.init()
            with monkeypatch.context() as patch:
                patch.setattr(dynamodb_servers, "DynamoDBClaims", kind)
                claims = dynamodb_servers.claims_at(proxy.endpoint, test_dynamodb.table_of(made))
                claims.identity()
                proxy.requests.clear()
                place = f"test://{uuid.uuid4()}"
                given = {"claims": claims, "ask": Registry(claims, "sync"), "place": place, "proxy": proxy}
                assert _fails(test, given) == is_wrong


@pytest.mark.parametrize("mutant", REDIS_COUNTERS, ids=str)
def test_a_test_finds_out_each_wrong_counter_in_redis(mutant: Mutant, valkey: Valkey) -> None:
    test = _test_of_counters(mutant, test_redis_counter)
    for kind, is_wrong in ((RedisCounter, False), (mutant.registry(RedisCounter), True)):
        with FaultProxy(valkey.address, speech="redis") as proxy:
            make = partial(kind, redis_settings(f"redis://{proxy.address}"))
            assert _fails(test, {**_counting(make), "proxy": proxy}) == is_wrong


@pytest.mark.parametrize("mutant", DYNAMODB_COUNTERS, ids=str)
def test_a_test_finds_out_each_wrong_counter_in_dynamodb(
    mutant: Mutant, moto: Moto, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who meets nobody is answered at the second time; some mutants never are.
    monkeypatch.setattr(asking, "_TIMES", 20)
    test = _test_of_counters(mutant, test_dynamodb_counter)
    for kind, is_wrong in ((DynamoDBCounter, False), (mutant.registry(DynamoDBCounter), True)):
        with FaultProxy(moto.endpoint, speech="dynamodb") as proxy:
            claims = dynamodb_servers.claims_at(proxy.endpoint)
            claims.init()
            table = test_dynamodb.table_of(claims)
            make = partial(kind, table, region=dynamodb_servers.REGION, endpoint_url=proxy.endpoint)
            given = {**_counting(make), "proxy": proxy, "claims": claims, "table": table}
            assert _fails(test, given) == is_wrong


def test_a_mutant_whose_text_is_gone_is_no_mutant() -> None:
    with pytest.raises(LookupError, match="0 times"):
        Mutant("of nothing", "redis", "no such text", "", "").registry(RedisLock)


def test_the_names_of_mutants_differ() -> None:
    for mutants in (LOCKS, CLAIMS, REDIS_COUNTERS, DYNAMODB_COUNTERS):
        assert len({mutant.name for mutant in mutants}) == len(mutants)


def _counting(make: Callable[[], Any]) -> dict[str, Any]:
    counter, name = make(), f"test://{uuid.uuid4()}/table"
    return {"make_counter": make, "counter": counter, "ask": Registry(counter, "sync"), "name": name}


def _test_of_counters(mutant: Mutant, module: ModuleType) -> Callable[..., None]:
    test: Callable[..., None] = getattr(module, mutant.caught_by, None) or getattr(
        CounterTests(), mutant.caught_by
    )
    return test


def _test_of_claims(name: str) -> Callable[..., None]:
    """Return a test of the suite, or of the module, with its parameters as ``name`` says them."""
    name, _, said = name.partition("[")
    test = getattr(test_dynamodb, name, None) or getattr(test_dynamodb.TestOnATable(), name)
    return partial(test, **_parameters(test, said.rstrip("]"))) if said else test


def _parameters(test: Any, said: str) -> dict[str, Any]:
    (mark,) = test.pytestmark
    named, values, ids = mark.args[0], list(mark.args[1]), mark.kwargs.get("ids")
    names = [named] if isinstance(named, str) else list(named)
    labels = [_label(value, ids, number) for number, value in enumerate(values)]
    value = values[labels.index(said)]
    return dict(zip(names, value if len(names) > 1 else [value], strict=True))


def _label(value: Any, ids: Any, number: int) -> str:
    if ids is None:
        return "-".join(map(str, value))
    return str(ids(value) if callable(ids) else list(ids)[number])


def _fails(test: Callable[..., None], given: Mapping[str, Any]) -> bool:
    wanted = inspect.signature(test).parameters
    try:
        test(**{name: value for name, value in given.items() if name in wanted})
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - it fails in any way
        return True
    return False
