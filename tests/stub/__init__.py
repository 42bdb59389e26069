"""FaultStub: a fake object store that can lose answers. No real server is in here.

``with FaultStub() as stub:`` starts it; ``stub.url("s3")`` is where a client finds it; ``stub.script(Op.PUT,
Fault.DROP_AFTER_APPLY)`` loses the answer to the next put; ``stub.objects`` says what is true.
"""

from tests.stub.faults import Fault, Op, Step
from tests.stub.server import Cloud, FaultStub
from tests.stub.state import State, StoredObject, Upload
from tests.stub.wire import Request

__all__ = ["Cloud", "Fault", "FaultStub", "Op", "Request", "State", "Step", "StoredObject", "Upload"]
