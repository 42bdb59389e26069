"""Which servers there are is said by ``PUTIFABSENT_SERVERS``."""

from __future__ import annotations

from tests.servers import SERVERS, LastingServer, chosen

collect_ignore = (
    [] if any(issubclass(SERVERS[name], LastingServer) for name in chosen()) else ["test_dying_servers.py"]
)
