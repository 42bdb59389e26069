"""``python -m tests.servers NAME COMMAND...``: run a command beside an S3 server, and end that after it.

The command finds it in ``PUTIFABSENT_S3``, as JSON: its endpoint, region, key, secret, and an empty bucket.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.servers import BucketServer, server


def main() -> int:
    """Return the command's exit status."""
    name, *command = sys.argv[1:]
    with server(name) as running:
        if not isinstance(running, BucketServer):
            sys.exit(f"{name} holds no objects")
        options = running.storage_options
        said = {
            "endpoint": running.endpoint,
            "region": options["client_kwargs"]["region_name"],
            "key": options["key"],
            "secret": options["secret"],
            "bucket": running.new_bucket(),
        }
        return subprocess.run(
            command, env={**os.environ, "PUTIFABSENT_S3": json.dumps(said)}, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
