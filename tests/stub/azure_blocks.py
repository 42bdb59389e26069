"""Azure's blocks: loose ones belong to a blob's *name*, are shared by its writers, and die with a commit."""

from __future__ import annotations

import hashlib
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from tests.stub.faults import Op
from tests.stub.state import Upload
from tests.stub.wire import Answer, Request, content, document, parsed, xml

if TYPE_CHECKING:
    from tests.stub.azure import Azure
    from tests.stub.wire import Doing


class Blocks:
    """The part of the dialect that is about blocks.

    Attributes
    ----------
    does
        What does each operation.
    """

    def __init__(self, objects: Azure) -> None:
        self._objects = objects
        self._state = objects.state
        self.does: dict[Op, Doing] = {
            Op.PART: self._put,
            Op.PART_COPY: self._copy,
            Op.COMPLETE: self._commit,
            Op.LIST_PARTS: self._list,
        }

    def _put(self, request: Request) -> Answer:
        return self._keep(request, request.body)

    def _keep(self, request: Request, data: bytes) -> Answer:
        loose = self._loose(request)
        block = request.query["blockid"]
        if loose.parts and len(next(iter(loose.parts))) != len(block):
            return self._objects.error(HTTPStatus.BAD_REQUEST, "InvalidBlobOrBlock")
        self._state.uploads[loose.id] = loose
        loose.parts[block] = data
        digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
        return Answer(HTTPStatus.CREATED, {"etag": f'"{digest}"', "x-ms-request-server-encrypted": "true"})

    def _copy(self, request: Request) -> Answer:
        path = urlsplit(request.headers["x-ms-copy-source"]).path
        bucket, _, key = unquote(path[1:].partition("/")[2]).partition("/")
        source = self._state.objects.get((bucket, key))
        if source is None:
            return self._objects.error(HTTPStatus.NOT_FOUND, "CannotVerifyCopySource")
        copied = content(source.data, request.headers.get("x-ms-source-range"))
        if copied is None:
            return self._objects.error(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "InvalidRange")
        return self._keep(request, copied.body)

    async def _commit(self, request: Request) -> Answer:
        loose = self._loose(request).parts
        committed = self._state.committed.get(request.name, {})
        sources = {"Uncommitted": loose, "Committed": committed, "Latest": {**committed, **loose}}
        wanted = {block.text or "": sources[block.tag].get(block.text or "") for block in parsed(request)}
        blocks = {block: data for block, data in wanted.items() if data is not None}
        refused = await self._objects.refused(request)
        if refused:
            return refused
        if len(blocks) < len(wanted):
            return self._objects.error(HTTPStatus.BAD_REQUEST, "InvalidBlockList")
        kind = request.headers.get("x-ms-blob-content-type", "application/octet-stream")
        answer = self._objects.write(
            request, b"".join(blocks.values()), self._objects.metadata(request), kind
        )
        self._state.committed[request.name] = blocks
        return answer

    def _list(self, request: Request) -> Answer:
        which = request.query.get("blocklisttype", "committed")
        found = {
            "Committed": self._state.committed.get(request.name, {}),
            "Uncommitted": self._loose(request).parts,
        }
        lists = [
            xml(
                f"{kind}Blocks", *(xml("Block", Name=block, Size=len(data)) for block, data in blocks.items())
            )
            for kind, blocks in found.items()
            if which in {"all", kind.lower()}
        ]
        return Answer(HTTPStatus.OK, {"content-type": "application/xml"}, document(xml("BlockList", *lists)))

    def _loose(self, request: Request) -> Upload:
        id_ = "/".join(request.name)
        return self._state.uploads.get(id_) or Upload(id_, *request.name)
