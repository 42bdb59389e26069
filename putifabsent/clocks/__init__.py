"""Instants that can't collide, by one interface, from whatever can be had."""

from putifabsent.clocks.bucket import BucketCounter
from putifabsent.clocks.door import NAME, Clock, Counted, Source, TrueTime, clock
from putifabsent.shim.clock import instant_of, millis_of

__all__ = [
    "NAME",
    "BucketCounter",
    "Clock",
    "Counted",
    "Source",
    "TrueTime",
    "clock",
    "instant_of",
    "millis_of",
]
