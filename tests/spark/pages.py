"""Pages of the documentation, whose Python is run as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["laid_out", "run_page"]


def laid_out(page: Path, folder: Path) -> Path:
    """Write all Python of a page into one script: the functions of its tasks are pickled by value."""
    script = folder / "page.py"
    script.write_text(
        "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE))
    )
    return script


def run_page(page: Path, folder: Path, *, seconds: float, python: str | Path = sys.executable) -> int:
    """Run it, by this Python or another, with a folder for what it leaves; return its exit status."""
    environment = {**os.environ, "PYSPARK_PYTHON": str(python), "TMPDIR": str(folder)}
    command = [str(python), str(laid_out(page, folder))]
    return subprocess.run(command, cwd=folder, env=environment, timeout=seconds, check=False).returncode
