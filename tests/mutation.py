"""Wrong modules: each is a right one with one change in its text."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Change", "public_in"]


@dataclass(frozen=True)
class Change:
    """One change, by which a module lies or does harm.

    Attributes
    ----------
    name
        What it gets wrong.
    source
        The module that it changes, within its package.
    old, new
        The text there, exactly once, and what it becomes.
    """

    name: str
    source: str
    old: str
    new: str

    def __str__(self) -> str:
        return self.name

    def modules(self, package: ModuleType, family: Sequence[str]) -> dict[str, ModuleType]:
        """Return some modules of a package with this change; what one takes from another is changed as well.

        Parameters
        ----------
        package, family
            Where they are, and which; ``room/module`` in a package below.

        Raises
        ------
        LookupError
            The text is not there any more: the mutant must be brought up to date, or it tests nothing.
        """
        made = {source: self._module(package, source) for source in family}
        for module in made.values():
            for other in made.values():
                names = module.__dict__.keys() & public_in(other)
                module.__dict__.update({name: other.__dict__[name] for name in names})
        return made

    def text(self, package: ModuleType, source: str) -> str:
        """Return a module's text, with this change if it is the one.

        Raises
        ------
        LookupError
            As above.
        """
        text = (Path(package.__path__[0]) / f"{source}.py").read_text(encoding="utf-8")
        if source != self.source:
            return text
        if text.count(self.old) != 1:
            raise LookupError(f"{self.name!r}: {source}.py has {self.old!r} {text.count(self.old)} times")
        return text.replace(self.old, self.new)

    def _module(self, package: ModuleType, source: str) -> ModuleType:
        text = self.text(package, source)
        module = ModuleType(f"{package.__name__}.{source}".replace("/", "."))
        module.__file__ = str(Path(package.__path__[0]) / f"{source}.py")
        exec(compile(text, f"<{self.name}>", "exec"), module.__dict__)  # noqa: S102 - it is our own text
        return module


def public_in(module: ModuleType) -> frozenset[str]:
    """Return the names without an underscore that a module's text defines itself, and does not import."""
    return _public_in(str(module.__file__))


@cache
def _public_in(path: str) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.parse(Path(path).read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        for each in node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]:
            found |= {name.id for name in ast.walk(each) if isinstance(name, ast.Name)} if each else set()
    return frozenset(name for name in found if not name.startswith("_"))
