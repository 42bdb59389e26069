"""The process that :class:`putifabsent.lab.servers.LocalBucket` starts.

It runs PyPI's ``localbucket`` on a free port, which it prints. When its standard input ends, it ends, and
removes its folder, which nobody else is left to do. What the server lacks of S3 and clients of it need is
added here; how a create is decided, and everything else, is its own code.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any, ClassVar

from localbucket import S3_NAMESPACE, S3Error, S3Handler

_METADATA = "x-amz-meta-"
_FOLDER_MARK = "\x01"
_FOLDERS_LOST = 20


class Handler(S3Handler):
    """The server's handler as it is published, and what it lacks.

    User metadata (noted by inode, before an object appears under its key); keys that end in ``/``, by
    which pyarrow makes folders; DeleteObjects; and an answer, where the server drops the connection,
    to a listing that races with a deletion, to a write into a folder that a deletion is just removing,
    and to a key that is a folder of other keys. A copy and a deletion wait for each other: the server
    would go on to copy what is being deleted. A body that a dying client cut short is refused: the server
    would keep what came of it. A listing reads the folder of its prefix: the server would read the bucket.
    """

    rfile: Any
    # An answer is two small writes; without this the second one waits for the client's delayed ACK.
    disable_nagle_algorithm = True
    # An inode that is used again is noted again: every object is written by _write_object.
    _of_inode: ClassVar[dict[tuple[int, int], dict[str, str]]] = {}
    _of_upload: ClassVar[dict[str, dict[str, str]]] = {}
    _copying_or_deleting: ClassVar[threading.Lock] = threading.Lock()

    def _dispatch(self, action: Callable[[str, str], None]) -> None:
        try:
            super()._dispatch(action)
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            # Raised before anything is written or answered: files can't lie below files.
            self._send_error(_unsupported("A key can't be a folder of other keys."))

    def _read_body(self) -> bytes:
        length = int(self.headers.get("Content-Length") or 0)
        if not length:
            return super()._read_body()  # type: ignore[no-any-return]
        sent = self.rfile.read(length)
        if len(sent) < length:
            raise S3Error(HTTPStatus.BAD_REQUEST, "IncompleteBody", "The body ended before its length.")
        stream = self.rfile
        self.rfile = io.BytesIO(sent)
        try:
            return super()._read_body()  # type: ignore[no-any-return]
        finally:
            self.rfile = stream

    def _post_request(self, bucket: str, key: str) -> None:
        if key or "delete" not in self.query:
            super()._post_request(bucket, key)
        else:
            self._delete_objects(bucket)

    def _copy_object(self, bucket: str, key: str) -> None:
        with self._copying_or_deleting:
            super()._copy_object(bucket, key)

    def _delete_object(self, bucket: str, key: str) -> None:
        with self._copying_or_deleting:
            super()._delete_object(bucket, key)

    def _delete_objects(self, bucket: str) -> None:
        deleted = ET.Element("DeleteResult", xmlns=S3_NAMESPACE)
        for named in ET.fromstring(self._read_body()).iterfind("{*}Object/{*}Key"):  # noqa: S314 - loopback
            target = self._object_path(bucket, named.text or "")
            with self._copying_or_deleting:
                if target.is_file():
                    target.unlink(missing_ok=True)
                    _remove_if_empty(target.parent, self._bucket_dir(bucket).resolve())
            ET.SubElement(ET.SubElement(deleted, "Deleted"), "Key").text = named.text
        self._send_xml(deleted)

    def _object_path(self, bucket: str, key: str) -> Path:
        path: Path = super()._object_path(bucket, key + _FOLDER_MARK if key.endswith("/") else key)
        return path

    def _list_entries(
        self,
        bucket_dir: Path,
        prefix: str,
        delimiter: str,
        marker: str,
        marker_is_prefix: bool,  # noqa: FBT001 - the signature that it overrides
        max_keys: int,
    ) -> tuple[list[tuple[str, Path]], list[str], bool, str]:
        folder = prefix[: prefix.rfind("/") + 1]
        below = folder.split("/")[:-1]
        elsewhere = marker and (marker == folder or not marker.startswith(folder))
        if elsewhere or any(part in {"", ".", ".."} for part in below):
            below, folder = [], ""
        contents, prefixes, truncated, last = super()._list_entries(
            bucket_dir.joinpath(*below),
            prefix.removeprefix(folder),
            delimiter,
            marker.removeprefix(folder),
            marker_is_prefix,
            max_keys,
        )
        return (
            [(folder + key, path) for key, path in contents],
            [folder + common for common in prefixes],
            truncated,
            last and last[:2] + folder + last[2:],
        )

    def _add_list_entries(
        self,
        root: ET.Element,
        contents: list[tuple[str, Path]],
        common_prefixes: list[str],
        encode: Callable[[str], str],
    ) -> None:
        for key, path in contents:
            shown = key.removesuffix(_FOLDER_MARK) if key.endswith("/" + _FOLDER_MARK) else key
            try:
                super()._add_list_entries(root, [(shown, path)], [], encode)
            except FileNotFoundError:  # deleted since the folder was read
                root.remove(root[-1])
        super()._add_list_entries(root, [], common_prefixes, encode)

    def _write_object(self, bucket: str, key: str, write: Callable[[IO[bytes]], str]) -> str:
        target = self._object_path(bucket, key)
        etag = ""

        def noting(file: IO[bytes]) -> str:
            nonlocal etag
            self._of_inode[_inode(file)] = metadata
            etag = write(file)
            return etag

        for _ in range(_FOLDERS_LOST):
            if target.is_dir():
                raise _unsupported("A folder of other keys can't be a key.")
            metadata = self._metadata_to_write()
            try:
                return super()._write_object(bucket, key, noting)  # type: ignore[no-any-return]
            except FileNotFoundError:
                if etag:  # written; it was deleted before its entity tag was noted
                    return etag
            except FileExistsError:
                if target.parent.is_file():
                    raise
            # Nothing is written: a deletion was just removing the folder, which was empty.
        raise S3Error(HTTPStatus.SERVICE_UNAVAILABLE, "SlowDown", "The folder of this key comes and goes.")

    def _metadata_to_write(self) -> dict[str, str]:
        if "uploadId" in self.query:
            return self._of_upload.get(self.query["uploadId"], {})
        replaced = self.headers.get("x-amz-metadata-directive", "COPY").strip().upper() == "REPLACE"
        if "x-amz-copy-source" in self.headers and not replaced:
            with self._copy_source().open("rb") as source:
                return self._of_inode.get(_inode(source), {})
        return self._metadata_sent()

    def _metadata_sent(self) -> dict[str, str]:
        headers = ((name.lower(), value) for name, value in self.headers.items())
        return {name: value for name, value in headers if name.startswith(_METADATA)}

    def _send_xml(self, root: ET.Element) -> None:
        upload = root.findtext("UploadId")
        if root.tag == "InitiateMultipartUploadResult" and upload:
            self._of_upload[upload] = self._metadata_sent()
        super()._send_xml(root)

    def _send_file(
        self,
        status: HTTPStatus,
        file: IO[bytes],
        start: int,
        length: int,
        headers: Mapping[str, str],
        include_body: bool,  # noqa: FBT001 - the signature that it overrides
    ) -> None:
        kept = self._of_inode.get(_inode(file), {})
        super()._send_file(status, file, start, length, {**headers, **kept}, include_body)


def _unsupported(why: str) -> S3Error:
    return S3Error(HTTPStatus.BAD_REQUEST, "InvalidArgument", f"This server does not support this key: {why}")


def _remove_if_empty(folder: Path, bucket: Path) -> None:
    while folder != bucket:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def _inode(file: IO[bytes]) -> tuple[int, int]:
    stat = os.fstat(file.fileno())
    return stat.st_dev, stat.st_ino


def _end_with_the_parent(folder: str) -> None:
    while sys.stdin.buffer.read(1024):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


class _Server(ThreadingHTTPServer):
    request_queue_size = 1024  # the server's own backlog of 5 drops connections in a race


def main() -> None:
    """Serve until ended, or until the parent is gone."""
    folder = sys.argv[1]  # a temporary one with `data` in it
    Handler.data_root = Path(folder, "data").resolve()
    server = _Server(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)  # noqa: T201 - the parent reads it
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # and nothing else
    threading.Thread(target=_end_with_the_parent, args=[folder], daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
