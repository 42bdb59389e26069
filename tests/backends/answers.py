"""What each fault of the stub means for a request that sets no condition."""

from __future__ import annotations

import pytest

from putifabsent.backends.base import Maybe, Refused, TryAgain
from tests.stub import Fault

ANSWERS = {
    Fault.DROP_AFTER_APPLY: Maybe,
    Fault.DROP_BEFORE_APPLY: Maybe,
    Fault.ERROR_500_AFTER: Maybe,
    Fault.ERROR_500_BEFORE: Maybe,
    Fault.ERROR_503_AFTER: Maybe,
    Fault.ERROR_503_BEFORE: Maybe,
    Fault.OK_WITH_ERROR_BODY: Maybe,
    Fault.CONFLICT_409: TryAgain,
    Fault.PRECONDITION_412: Refused,
    Fault.FORBIDDEN_403: Refused,
}
each_answer = pytest.mark.parametrize(
    ("fault", "meaning"), ANSWERS.items(), ids=lambda value: getattr(value, "name", "")
)
