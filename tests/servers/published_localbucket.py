"""PyPI's ``localbucket`` as it is published, but that it waits for no delayed ACK, and has a backlog."""

from __future__ import annotations

import sys
from http.server import ThreadingHTTPServer
from pathlib import Path

from localbucket import S3Handler


class _Server(ThreadingHTTPServer):
    request_queue_size = 1024


if __name__ == "__main__":
    port, folder = sys.argv[1:]
    S3Handler.data_root = Path(folder).resolve()
    S3Handler.disable_nagle_algorithm = True
    _Server(("127.0.0.1", int(port)), S3Handler).serve_forever()
