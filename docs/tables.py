"""Writes the tables of the documentation that the code itself knows: ``python docs/tables.py``."""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from putifabsent.inspection import MEANINGS, Severity
from putifabsent.shim.policy import RULES
from putifabsent.spark.stores import SCHEMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from putifabsent.shim.names import Rule
    from putifabsent.spark.hadoop_settings import Store

PAGE = Path(__file__).parent / "reference" / "formats.md"
SETTINGS = Path(__file__).parent / "reference" / "settings.md"
HADOOP = Path(__file__).parents[1] / "tools" / "hadoop_keys.json"
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
    rows = ["| format | names | guarded | unique | |", "|---|---|---|---|---|"]
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


def settings() -> list[str]:
    """Return what becomes of Hadoop's settings, a table a client: S3A's, the GCS connector's, ABFS's."""
    return [
        _settings(scheme, client["of no matter"]) for scheme, client in json.loads(HADOOP.read_text()).items()
    ]


def _settings(scheme: str, ignored: dict[str, list[str]]) -> str:
    store = SCHEMES[scheme]
    rows = ["| mapped | to |", "|---|---|"]
    rows += _alike(store, store.mapped)
    refused: dict[str, str] = {}
    for key, (why, harmless, _) in store.refused.items():
        refused[key] = why + (f"; {', '.join(f'`{each}`' for each in harmless)} passes" if harmless else "")
    rows += ["| **refused** | **why** |", *_alike(store, refused)]
    rows += ["| **of no matter** | **why** |"]
    rows += _alike(store, {key: why for why, keys in ignored.items() for key in keys})
    return "\n".join(rows)


def _alike(store: Store, meanings: Mapping[str, str]) -> Iterator[str]:
    """Yield a row for all settings of one meaning."""
    keys: dict[str, list[str]] = {}
    for key, meaning in meanings.items():
        keys.setdefault(meaning, []).append(f"`{store.prefixes[0]}{key}{'*' * key.endswith('.')}`")
    for meaning, some in keys.items():
        yield f"| {', '.join(some)} | {meaning} |"


def _row(title: str, rule: Rule) -> str:
    names, note = _code(rule.pattern_text), escape(rule.note, quote=False)
    unique = rule.identity_text if rule.guarded and rule.identity_text != "the name" else ""
    return f"| {title} | {names} | {'yes' if rule.guarded else 'no'} | {unique} | {note} |"


def _code(names: str) -> str:
    # A `|` would end the cell; what follows the last blank outside <...> is prose.
    parts = re.split(r"([,;] )", names.replace("|", " or "))
    return "".join(part if at % 2 else PROSE.sub(r"`\1`\2", part) for at, part in enumerate(parts))


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: formats(), PAGE.read_text()))
    tables = iter(settings())
    SETTINGS.write_text(TABLE.sub(lambda _: next(tables), SETTINGS.read_text()))
    FINDINGS.write_text(TABLE.sub(lambda _: findings(), FINDINGS.read_text()))
