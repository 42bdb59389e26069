"""Delta's protocol for S3 and DynamoDB (``S3DynamoDBLogStore``), as published, for a comparison.

Read off ``io.delta.storage.BaseExternalLogStore`` and ``S3DynamoDBLogStore`` of Delta 4, and written anew.
N.json is written by eight calls: is N.json there? what does the entry of N-1 say? is N-1.json there? Then the
bytes under a temporary name, the entry of N if there is none (this decides), the temporary file read, N.json
written, the entry complete.

Each call is one request here, the fewest that a client can send. Delta's own client, S3A, sends 13 for them.
"""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING, NamedTuple

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from putifabsent.backends.base import Absent, Creation, Found, Got, InMemory, Written

if TYPE_CHECKING:
    from typing import Any

    from putifabsent.backends.base import Store

__all__ = ["DeltaLogStore"]

_TABLE = "delta_log"
_REGION = "us-east-1"
_FIXES = 3
_CONNECTIONS = 64


class _Entry(NamedTuple):
    """What DynamoDB says of N."""

    file: str
    temporary: str
    complete: bool


class DeltaLogStore:
    """The log of one table.

    Parameters
    ----------
    store
        Where it lies.
    dynamodb
        The address of DynamoDB.
    log
        Its folder.
    """

    def __init__(self, store: Store, dynamodb: str, log: str) -> None:
        self._store = store
        self._log = log
        self._client = _client(dynamodb)

    def write(self, number: int, data: bytes) -> None:
        """Write N.json, if it is not there.

        Raises
        ------
        FileExistsError
            It is there, or DynamoDB knows of one.
        OSError
            The entry before it is not there, or a server gives no answer.
        """
        name = _name(number)
        if self._exists(name):
            raise FileExistsError(name)
        if number:
            self._ensure(_name(number - 1))
        elif (old := self._entry(name)) is not None and old.complete and not self._exists(name):
            raise OSError(f"entries of an older table are still there: {old}")
        entry = _Entry(name, f".tmp/{name}.{uuid.uuid4()}", complete=False)
        self._put(entry.temporary, data)
        self._prepare(entry)
        # It is decided. Whoever comes next copies and completes what this writer does not.
        with contextlib.suppress(OSError):
            self._copy(entry)
            self._complete(entry)

    def _ensure(self, name: str) -> None:
        """See that the entry before is there; finish what its writer has not."""
        entry = self._entry(name)
        if entry is not None and not entry.complete:
            self._fix(entry)
        elif not self._exists(name):
            raise FileNotFoundError(name)

    def _fix(self, entry: _Entry) -> None:
        copied = False
        for left in reversed(range(_FIXES + 1)):
            try:
                if not copied and not self._exists(entry.file):
                    self._copy(entry)
                    copied = True
                self._complete(entry)
            except OSError:
                if not left:
                    raise
            else:
                return

    # The calls: one request each, but for the copy, which reads and writes

    def _exists(self, name: str) -> bool:
        seen = self._store.head(f"{self._log}/{name}")
        if not isinstance(seen, (Found, Absent)):
            raise OSError(f"{name}: {seen}")
        return isinstance(seen, Found)

    def _put(self, name: str, data: bytes) -> None:
        path = f"{self._log}/{name}"
        outcome = self._store.put(path, InMemory(data), Creation(str(uuid.uuid4()), "delta", self._log))
        if not isinstance(outcome, Written):
            raise OSError(f"{name}: {outcome}")

    def _copy(self, entry: _Entry) -> None:
        got = self._store.get(f"{self._log}/{entry.temporary}")
        if not isinstance(got, Got):
            raise OSError(f"{entry.temporary}: {got}")
        self._put(entry.file, got.data)

    def _entry(self, name: str) -> _Entry | None:
        answer = self._client.get_item(TableName=_TABLE, Key=self._key(name), ConsistentRead=True)
        item = answer.get("Item")
        return item and _Entry(name, item["tempPath"]["S"], complete=item["complete"]["S"] == "true")

    def _prepare(self, entry: _Entry) -> None:
        try:
            self._client.put_item(
                TableName=_TABLE, Item=self._item(entry), ConditionExpression="attribute_not_exists(fileName)"
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise OSError(str(error)) from error
            raise FileExistsError(entry.file) from error

    def _complete(self, entry: _Entry) -> None:
        self._client.put_item(TableName=_TABLE, Item=self._item(entry._replace(complete=True)))

    def _item(self, entry: _Entry) -> dict[str, Any]:
        said = {"tempPath": {"S": entry.temporary}, "complete": {"S": str(entry.complete).lower()}}
        return {**self._key(entry.file), **said}

    def _key(self, name: str) -> dict[str, Any]:
        return {"tablePath": {"S": self._log}, "fileName": {"S": name}}


def _name(number: int) -> str:
    return f"{number:020d}.json"


def _client(dynamodb: str) -> Any:
    client = boto3.client(
        "dynamodb",
        endpoint_url=dynamodb,
        region_name=_REGION,
        config=Config(max_pool_connections=_CONNECTIONS, retries={"total_max_attempts": 1}),
    )
    keys = {"tablePath": "HASH", "fileName": "RANGE"}
    with contextlib.suppress(client.exceptions.ResourceInUseException):
        client.create_table(
            TableName=_TABLE,
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys.items()],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in keys],
            BillingMode="PAY_PER_REQUEST",
        )
    return client
