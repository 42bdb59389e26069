"""Build hooks: packages bring the adapter for the JVM along, or are not built; and say where the project is.

The jar is in no commit. An sdist has it; in a checkout it is built by Maven's wrapper, which takes a JDK.
Where the project is, whoever builds a release says; a wheel of an sdist has what that says.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_JAR = "putifabsent/spark/putifabsent-hadoop.jar"
_WITHOUT = "PUTIFABSENT_WITHOUT_JAR"
_REPOSITORY = "PUTIFABSENT_REPOSITORY"


class AdapterHook(BuildHookInterface[Any]):
    """Builds the jar where it is not there, or older than its sources."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Run before anything is collected; an editable installation has the checkout's own jar, if any."""
        if version == "editable" or os.environ.get(_WITHOUT) == "1":
            return
        build_data["artifacts"].append(f"/{_JAR}")  # git ignores it, and so would the package
        root = Path(self.root)
        jar, adapter = root / _JAR, root / "hadoop"
        sources = [
            adapter / "pom.xml",
            *(each for each in (adapter / "src/main").rglob("*") if each.is_file()),
        ]
        if jar.is_file() and jar.stat().st_mtime >= max(each.stat().st_mtime for each in sources):
            return
        if not (shutil.which("javac") or os.environ.get("JAVA_HOME")):
            msg = (
                f"the adapter for the JVM ({_JAR}) is not built, and no JDK is on the PATH to build it: "
                f"install one (11 or later), or set {_WITHOUT}=1 for a package that can't mount Spark"
            )
            raise RuntimeError(msg)
        wrapper = ["sh", str(adapter / "mvnw"), "--batch-mode", "--quiet", "--file", str(adapter / "pom.xml")]
        subprocess.run([*wrapper, "-Dmaven.test.skip=true", "package"], check=True)
        shutil.copy(adapter / "target" / jar.name, jar)


class AddressHook(MetadataHookInterface):
    """Fills ``[project.urls]`` in.

    https://packaging.python.org/en/latest/specifications/well-known-project-urls/
    """

    def update(self, metadata: dict[str, Any]) -> None:
        """Go by the repository's address on the web, such as ``https://example.org/owner/putifabsent``."""
        at = os.environ.get(_REPOSITORY, "").rstrip("/").removesuffix(".git")
        if not at:
            return
        if not at.startswith("https://"):
            msg = f"{_REPOSITORY} is {at}, which is no address on the web: give one that begins with https://"
            raise ValueError(msg)
        read = f"{at}/blob/v{metadata['version']}"
        metadata["urls"] = {
            "Source": at,
            "Documentation": f"{read}/docs/index.md",
            "Changelog": f"{read}/CHANGELOG.md",
            "Issues": f"{at}/issues",
            "Security": f"{read}/SECURITY.md",
        }
