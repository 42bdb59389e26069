"""The coordination service: what the JVM's adapter asks, and anybody else who can't import this package.

It holds no state of its own: everything that is decided lies in the store, or with the arbiter. It may be
killed at any time, and many of them may run; whoever hears no answer asks the next one what has become of the
call (:class:`~putifabsent.service.wire.Resolve`).
"""

from putifabsent.service.app import listening, serve
from putifabsent.service.mounts import Mounts
from putifabsent.service.settings import Settings

__all__ = ["Mounts", "Settings", "listening", "serve"]
