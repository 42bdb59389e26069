"""The package as its users have it: a wheel, and an environment in which no checkout is."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import venv
from pathlib import Path

__all__ = ["JAR", "ROOT", "build", "clone", "install"]

ROOT = Path(__file__).parents[1]
JAR = "putifabsent/spark/putifabsent-hadoop.jar"
_FILES = (
    ".gitignore",
    "LICENSE",
    "NOTICE",
    "README.md",
    "hatch_build.py",
    "pyproject.toml",
    "hadoop/mvnw",
    "hadoop/pom.xml",
)


def clone(folder: Path) -> Path:
    """Copy into a new folder what a clone has, and what packages are made of."""
    for part in ("hadoop/src/main", "hadoop/.mvn", "putifabsent"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "*.jar"))
    for part in _FILES:
        shutil.copy(ROOT / part, folder / part)
    return folder


def build(folder: Path, kind: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build a ``wheel`` or an ``sdist`` of a clone, into its ``dist``."""
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder / "dist")],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def install(folder: Path, *, jar: bool = True) -> Path:
    """Build a wheel, and install it into a new environment.

    What it depends on is this environment's, as the lock has it.

    Parameters
    ----------
    folder
        Where.
    jar
        Whether it has the adapter's jar, which is here; else it is one for who wants no Spark.

    Returns
    -------
    Path
        The environment's Python.
    """
    copy = clone(folder / "clone")
    if jar:
        shutil.copy(ROOT / JAR, copy / JAR)
    done = build(copy, "wheel", PUTIFABSENT_WITHOUT_JAR="" if jar else "1")
    assert done.returncode == 0, done.stderr
    (wheel,) = (copy / "dist").glob("*.whl")
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--offline"]
    subprocess.run([*uv, "--python", str(python), "--no-deps", str(wheel)], check=True, timeout=120)
    (packages,) = environment.glob("lib/python*/site-packages")
    # Only what lies in there is found: no .pth of its own is read, by which a checkout would come along.
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    where = subprocess.check_output(
        [python, "-c", "import putifabsent as p; print(p.__file__)"], cwd=folder, text=True
    )
    assert Path(where.strip()).is_relative_to(packages), where
    return python
