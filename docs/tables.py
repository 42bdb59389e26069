"""Writes the tables of the documentation that the code itself knows: ``python docs/tables.py``."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from putifabsent.inspection import MEANINGS, Severity
from putifabsent.shim.formats import RULES

if TYPE_CHECKING:
    from putifabsent.shim.names import Rule

PAGE = Path(__file__).parent / "reference" / "formats.md"
FINDINGS = Path(__file__).parent / "how-to" / "inspect.md"
TABLE = re.compile(r"(?<=<!-- drawn by docs/tables.py -->\n\n).*?(?=\n\n)", re.DOTALL)
PROSE = re.compile(r"^((?:<[^>]*>|\S)+)(.*)$")
TITLES = {
    "hudi": "Hudi",
    "paimon": "Paimon",
    "delta": "Delta",
    "iceberg": "Iceberg (path-based)",
    "spark": "Spark",
}


def formats() -> str:
    """Return the names of all formats, one row a rule, as the policy knows them."""
    rows = ["| format | names | role | a plain write | what is unique | |", "|---|---|---|---|---|---|"]
    rows += [_row(TITLES[name], rule) for name, rules in RULES.items() for rule in rules]
    return "\n".join(rows)


def findings() -> str:
    """Return what an inspection can find, one row a kind."""
    rows = ["| finding | in | means | what to do |", "|---|---|---|---|"]
    for kind, what in MEANINGS.items():
        titles = ", ".join(TITLES[name] for name in what.formats)
        name = f"`{kind.value}`" + ("" if what.severity is Severity.DAMAGE else " (notice)")
        rows.append(f"| {name} | {titles} | {what.means} | {what.do} |")
    return "\n".join(rows)


def _row(title: str, rule: Rule) -> str:
    write = "**is a create**" if rule.guarded else "as ever"
    names, note = _code(rule.pattern_text), escape(rule.note, quote=False)
    return f"| {title} | {names} | `{rule.role.value}` | {write} | {rule.identity_text} | {note} |"


def _code(names: str) -> str:
    # A `|` would end the cell; what follows the last blank outside <...> is prose.
    parts = re.split(r"([,;] )", names.replace("|", " or "))
    return "".join(part if at % 2 else PROSE.sub(r"`\1`\2", part) for at, part in enumerate(parts))


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: formats(), PAGE.read_text()))
    FINDINGS.write_text(TABLE.sub(lambda _: findings(), FINDINGS.read_text()))
