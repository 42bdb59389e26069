"""Writes which settings Hadoop's clients of stores read, as their jars have them: ``tools/hadoop_keys.py``.

``hadoop_keys.json`` is written by hand but for its lists of keys: the releases, keys that no class has whole,
prefixes that are no keys, and why settings are of no matter to guarded names. Maven brings the jars.
"""

from __future__ import annotations

import json
import re
import struct
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = Path(__file__).with_suffix(".json")
MAVEN = Path(__file__).parents[1] / "hadoop" / "mvnw"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.9.0:copy"
# By tag, the size of an entry of a class's pool of constants: JVMS 4.4. Texts say their own.
SIZES = {
    3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2,
}  # fmt: skip
TEXT, LONG, DOUBLE = 1, 5, 6
KEYS = {
    "s3a": re.compile(r"fs\.s3a\.(?:bucket\.%s\.)?([\w.-]+)"),
    "gs": re.compile(r"fs\.gs\.([\w.-]+)"),
    "abfs": re.compile(r"fs\.azure\.([\w.-]+)"),
}
# The connector puts prefixes before these.
SUFFIXED = re.compile(r"/HadoopCredentials?Configuration\.class$")
SUFFIX = re.compile(r"\.([a-z][\w.-]+)")


def texts(code: bytes) -> Iterator[str]:
    """Yield every text of a class's pool of constants."""
    (count,) = struct.unpack_from(">H", code, 8)
    at, index = 10, 1
    while index < count:
        tag = code[at]
        if tag == TEXT:
            (size,) = struct.unpack_from(">H", code, at + 1)
            yield code[at + 3 : at + 3 + size].decode(errors="replace")
            size += 2
        else:
            size = SIZES[tag]
        at += 1 + size
        index += 2 if tag in {LONG, DOUBLE} else 1


def keys_in(scheme: str, jar: Path) -> set[str]:
    """Return the keys that a client's classes have, without what they begin with."""
    found = set()
    with zipfile.ZipFile(jar) as classes:
        for name in classes.namelist():
            if name.endswith(".class"):
                pattern = SUFFIX if SUFFIXED.search(name) else KEYS[scheme]
                matches = (pattern.fullmatch(text) for text in texts(classes.read(name)))
                found |= {match[1] for match in matches if match}
    return found


def jar_of(artifact: str, folder: Path) -> Path:
    """Have Maven bring a jar: ``group:name:version``, and perhaps ``:jar:classifier``."""
    goal = [COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
    subprocess.run([MAVEN, "--batch-mode", "--quiet", *goal], check=True)
    name, version, *rest = artifact.split(":")[1:]
    return folder / f"{'-'.join([name, version, *rest[1:]])}.jar"


def main() -> None:
    """Write the file again."""
    stores: dict[str, dict[str, Any]] = json.loads(FILE.read_text())
    with tempfile.TemporaryDirectory() as folder:
        for scheme, store in stores.items():
            found = (keys_in(scheme, jar_of(artifact, Path(folder))) for artifact in store["releases"])
            store["keys"] = sorted(set().union(*found, store["computed"]))
    FILE.write_text(json.dumps(stores, indent=2) + "\n")


if __name__ == "__main__":
    main()
