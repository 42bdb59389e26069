"""The rules of the house, as far as a program can see them: ``make lint`` prints what breaks one.

1. A small module whose only importer is a sibling belongs to that one, or has a reason.
2. Of the bases of a class, and theirs, at most two in a row are ours.
3. The core of fsspec's door imports no format.

What may stay as it is has its reason here: a sentence, which must go when it is no longer needed.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SMALL = 100
LONGEST_CHAIN = 2
CORE = ("guard.py", "mount.py", "filesystem.py")
FORMATS = "putifabsent.shim.formats"
_WORDS = 4

# By path. These may be small, and have one importer beside them.
SMALL_BECAUSE: dict[str, str] = {}

# These may have a class that is the last of more than two.
CHAINS_BECAUSE = {
    "putifabsent/backends/local.py": "A store of whole bodies writes once what each such store would.",
    "putifabsent/backends/memory.py": "A store of whole bodies writes once what each such store would.",
    "putifabsent/errors.py": "Callers catch errors by what they can do, and NameExpired is a NameTaken.",
    "putifabsent/lab/stress/paths.py": "A contender differs from another by a method or two.",
    "putifabsent/service/wire.py": "Models of calls on one name, and on two, extend that of all calls.",
    "putifabsent/shim/arbiter.py": "An arbiter with locks is a ballot that is asked in turn.",
}  # fmt: skip


class Module(NamedTuple):
    """A module of the package, by its path from the root."""

    path: str
    lines: int
    names: dict[str, str]
    imports: set[str]
    classes: dict[str, list[str]]


def modules(root: Path) -> dict[str, Module]:
    """Read a package; by dotted names."""
    found = {}
    for file in sorted((root / "putifabsent").rglob("*.py")):
        path = file.relative_to(root)
        text = file.read_text()
        names: dict[str, str] = {}
        imports: set[str] = set()
        classes: dict[str, list[str]] = {}
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                imports.update(each.name for each in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                of = {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
                names.update(of)
                imports.update([node.module, *of.values()])
            elif isinstance(node, ast.ClassDef):
                classes[node.name] = [ast.unparse(base).partition("[")[0] for base in node.bases]
        name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        found[name] = Module(str(path), text.count("\n"), names, imports, classes)
    return found


def small(package: Mapping[str, Module]) -> dict[str, str]:
    """Return the small modules that only a sibling imports."""
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for name, module in package.items():
        for each in module.imports & package.keys() - {name}:
            importers[each].add(name)
    return {
        package[name].path: f"{package[name].lines} lines, and only {package[importer].path} imports it"
        for name, (importer, *others) in sorted(importers.items())
        if package[name].lines < SMALL
        and not others
        and Path(package[name].path).parent == Path(package[importer].path).parent
        and not package[name].path.endswith("__init__.py")
    }


def chains(package: Mapping[str, Module]) -> dict[str, str]:
    """Return the files that have a class with too many of ours above it."""
    found = {}
    for name, module in package.items():
        for each in module.classes:
            length = _length(package, name, each)
            if length > LONGEST_CHAIN:
                found[module.path] = f"{each} is the last of {length} classes that inherit from each other"
    return found


def _length(package: Mapping[str, Module], name: str, class_name: str) -> int:
    module = package[name]
    lengths = [0]
    for base in module.classes[class_name]:
        first, _, rest = base.partition(".")
        at, _, found = (
            (name, "", base) if base in module.classes else _split(module.names.get(first, ""), rest)
        )
        if at in package and found in package[at].classes and (at, found) != (name, class_name):
            lengths.append(_length(package, at, found))
    return 1 + max(lengths)


def _split(origin: str, rest: str) -> tuple[str, str, str]:
    return (origin, "", rest) if rest else origin.rpartition(".")


def formats(package: Mapping[str, Module]) -> Iterable[str]:
    """Say which parts of the door's core import a format."""
    for module in package.values():
        if Path(module.path).parent.name == "fsspec_plugin" and Path(module.path).name in CORE:
            known = sorted(each for each in module.imports if f"{each}.".startswith(f"{FORMATS}."))
            yield from (f"{module.path}: it is the door's core, and imports {each}" for each in known)


def reasoned(found: Mapping[str, str], reasons: Mapping[str, str]) -> Iterable[str]:
    """Say what breaks a rule without a reason, and which reasons are needed no more, or are none."""
    yield from (f"{path}: {why}" for path, why in found.items() if path not in reasons)
    for path, reason in reasons.items():
        if path not in found:
            yield f"{path}: the reason why it may break a rule is needed no more"
        elif len(reason.split()) < _WORDS or not reason.endswith("."):
            yield f"{path}: the reason why it may break a rule is no sentence"


def problems(root: Path) -> list[str]:
    """Return what breaks a rule below this folder."""
    package = modules(root)
    return [
        *reasoned(small(package), SMALL_BECAUSE),
        *reasoned(chains(package), CHAINS_BECAUSE),
        *formats(package),
    ]


if __name__ == "__main__":
    broken = problems(Path(__file__).parents[1])
    print(*broken, sep="\n", end="\n" if broken else "")
    sys.exit(bool(broken))
