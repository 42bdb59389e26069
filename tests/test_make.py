"""A first run that is interrupted, or fails, does not spoil the next one."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _program(file: Path, *lines: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    file.chmod(0o755)
    return file


def test_an_environment_that_was_made_by_half_is_made_again(tmp_path: Path) -> None:
    # No pip: what an interruption leaves, and Debian where python3-venv is missing.
    environment = _program(tmp_path / "environment/bin/python", "exit 1").parents[1]
    python = _program(tmp_path / "python", 'if [ "$1" = -m ]; then echo "$@"; exit 1; fi')
    done = subprocess.run(
        [ROOT / "locks/install.sh", environment, ROOT / "locks/uv.txt"],
        env={**os.environ, "PYTHON": str(python)},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == f"-m venv {environment}\n"


def test_scripts_of_the_documentation_that_did_not_come_are_asked_for_again(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    _program(tmp_path / "tools/docs_scripts.sh", 'mkdir -p "$1"', "echo asked >>asked", "exit 1")
    make = shutil.which("make")
    assert make
    for _ in range(2):
        subprocess.run(
            [make, ".cache/docs_scripts/.stamp"], cwd=tmp_path, check=False, capture_output=True, timeout=60
        )
    assert (tmp_path / "asked").read_text().split() == ["asked"] * 2


def test_a_folder_with_blanks_is_one_option_of_the_jvm(tmp_path: Path) -> None:
    checkout = tmp_path / "a check out"
    _program(checkout / ".venv-spark35/bin/python", 'echo "$JDK_JAVA_OPTIONS"')
    shutil.copy(ROOT / "Makefile", checkout)
    done = subprocess.run(
        [shutil.which("make") or "", "-s", "spark-older"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=True,
    )
    # The launcher of Java reads this variable as a shell does its words.
    options = shlex.split(done.stdout.strip())
    assert options[-1] == f"-XX:SharedArchiveFile={checkout}/.venv-spark35/classes.jsa"
