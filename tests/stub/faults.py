"""What can go wrong with one request, and the scripts that make it go wrong."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stub.state import State

    Hook: TypeAlias = Callable[[State], object]

Conditions: TypeAlias = Literal["honoured", "ignored", "raced", "unimplemented"]
"""How honest a store is about "only if the name is not there".

``ignored``: answers success and overwrites. ``raced``: looks, lets others in, then writes.
``unimplemented``: its S3 answers 501 to whoever asks for it, and writes nothing.
"""


class Op(Enum):
    """What a request asks for, in one set of words for the three clouds."""

    PUT = "put"
    HEAD = "head"
    GET = "get"
    DELETE = "delete"
    DELETE_MANY = "delete many"
    LIST = "list"
    COPY = "copy"
    CREATE_UPLOAD = "create upload"
    PART = "part"
    PART_COPY = "part copy"
    COMPLETE = "complete"
    ABORT = "abort"
    UPLOAD_STATUS = "upload status"
    LIST_PARTS = "list parts"
    LIST_UPLOADS = "list uploads"
    BUCKET = "bucket"
    CREATE_BUCKET = "create bucket"
    LIST_BUCKETS = "list buckets"
    OTHER = "other"


class Reply(Enum):
    """What comes back instead of the honest answer; each cloud words it in its own way."""

    DROPPED = "the connection is closed"
    RESET = "the connection is reset"
    LATE = "nothing, until released"
    INTERNAL = "500"
    UNAVAILABLE = "503"
    CONFLICT = "409: two requests met, and this one wrote nothing"
    PRECONDITION = "412, saying which condition"
    PRECONDITION_BARE = "412, not saying which condition"
    OK_WITH_ERROR = "200, and an error in the body"
    FORBIDDEN = "403"
    NO_SUCH_UPLOAD = "the upload is not there"


class Fault(Enum):
    """One thing that goes wrong: whether the request is applied, and what comes back."""

    DROP_AFTER_APPLY = (True, Reply.DROPPED)
    DROP_BEFORE_APPLY = (False, Reply.DROPPED)
    RESET_AFTER_APPLY = (True, Reply.RESET)
    ERROR_500_AFTER = (True, Reply.INTERNAL)
    ERROR_500_BEFORE = (False, Reply.INTERNAL)
    ERROR_503_AFTER = (True, Reply.UNAVAILABLE)
    ERROR_503_BEFORE = (False, Reply.UNAVAILABLE)
    TIMEOUT_AFTER_APPLY = (True, Reply.LATE)
    CONFLICT_409 = (False, Reply.CONFLICT)
    PRECONDITION_412 = (False, Reply.PRECONDITION)
    PRECONDITION_412_BARE = (False, Reply.PRECONDITION_BARE)
    OK_WITH_ERROR_BODY = (False, Reply.OK_WITH_ERROR)
    FORBIDDEN_403 = (False, Reply.FORBIDDEN)
    NO_SUCH_UPLOAD = (False, Reply.NO_SUCH_UPLOAD)

    @property
    def applies(self) -> bool:
        """Whether the request takes effect, unless its step says otherwise."""
        return self.value[0]

    @property
    def reply(self) -> Reply:
        """What comes back."""
        return self.value[1]


@dataclass(frozen=True)
class Step:
    """What happens to one request. ``before``, the request and ``after`` are one atomic step.

    Attributes
    ----------
    fault
        None: it is answered honestly.
    applies
        Overrides the fault's own. A 412 to a request that *was* applied is what a client sees when
        something on the way has sent its request twice.
    before, after
        What other writers do, just before and just after the request is applied.
    """

    fault: Fault | None = None
    applies: bool | None = None
    before: Hook | None = None
    after: Hook | None = None

    @property
    def applied(self) -> bool:
        """Whether the request takes effect."""
        if self.applies is not None:
            return self.applies
        return self.fault is None or self.fault.applies


HONEST = Step()


class Script:
    """The nth request of an operation takes the nth step; later ones are answered honestly."""

    def __init__(self) -> None:
        self._steps: defaultdict[Op, deque[Step]] = defaultdict(deque)
        self._forever: dict[Op, Step] = {}

    def add(self, op: Op, steps: tuple[Step | Fault | None, ...], *, forever: bool) -> None:
        """Append steps; ``forever`` repeats the last of them for all later requests."""
        wanted = [step if isinstance(step, Step) else Step(step) for step in steps]
        if forever:
            self._forever[op] = wanted.pop()
        self._steps[op].extend(wanted)

    def take(self, op: Op) -> Step:
        """Return what happens to the next request of this operation."""
        steps = self._steps[op]
        return steps.popleft() if steps else self._forever.get(op, HONEST)

    def left(self) -> list[tuple[Op, Step]]:
        """The steps that no request has taken: a test may want none."""
        return [(op, step) for op, steps in self._steps.items() for step in steps]
