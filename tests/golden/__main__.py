"""Writes the golden files again: all, or those that are named."""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path

from tests.golden.cases import FILES, text_of

logging.disable()  # of unknown outcomes there are many here
warnings.simplefilter("ignore", RuntimeWarning)  # fsspec drops what had not begun when a call of many fails
for file in sys.argv[1:] or FILES:
    (Path(__file__).parent / "files" / f"{file}.txt").write_text(text_of(file))
