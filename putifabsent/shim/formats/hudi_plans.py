"""What the plan in a requested rollback says: which instant it takes back.

Hudi writes it as an Avro file, with the schema of ``HoodieRollbackPlan`` (``instantToRollback.commitTime``):
see ``hudi-common/src/main/avro/HoodieRollbackPlan.avsc``.
"""

from __future__ import annotations

import errno
import io
from typing import Any

from putifabsent.errors import ConfigError

__all__ = ["rolled_back"]


def rolled_back(plan: bytes, path: str) -> str | None:
    """Return the instant that a rollback takes back; None: its plan names none.

    Parameters
    ----------
    plan
        All bytes of ``<R>.rollback.requested``.
    path
        Its name, for errors.

    Raises
    ------
    OSError
        They are no such plan: whoever went on without knowing could remove what another is completing.
    ConfigError
        The package that reads it is not installed.
    """
    try:
        import fastavro
    except ImportError as error:
        reason = "rollbacks of Hudi tables name what they take back in Avro: pip install 'putifabsent[hudi]'"
        raise ConfigError(reason) from error
    try:
        records: list[Any] = list(fastavro.reader(io.BytesIO(plan)))
        named = records[0]["instantToRollback"]
        return None if named is None else str(named["commitTime"])
    except (EOFError, IndexError, KeyError, TypeError, ValueError) as error:
        reason = "this is no plan of a rollback, so nobody can tell what it takes back"
        raise OSError(errno.EINVAL, reason, path) from error
