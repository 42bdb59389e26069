"""Writes those lists of the documentation that the code itself knows: ``python docs/tables.py``."""

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
    from collections.abc import Iterable, Iterator, Mapping

    from putifabsent.shim.names import Rule

PAGE = Path(__file__).parent / "reference" / "formats.md"
SETTINGS = Path(__file__).parent / "reference" / "settings.md"
HADOOP = Path(__file__).parents[1] / "tools" / "hadoop_keys.json"
FINDINGS = Path(__file__).parent / "how-to" / "inspect.md"
TABLE = re.compile(r"(?<=<!-- drawn by docs/tables.py -->\n\n).*?(?=\n\n)", re.DOTALL)
INSPECTED = {name for what in MEANINGS.values() for name in what.formats}
PROSE = re.compile(r"^((?:<[^>]*>|\S)+)(.*)$")
TITLES = {
    "hudi": "Hudi",
    "paimon": "Paimon",
    "delta": "Delta",
    "iceberg": "Iceberg",
    "spark": "Spark",
}


def formats() -> str:
    """Return the names of all formats as the policy knows them: guarded ones, then the others."""
    lines = []
    for name, rules in RULES.items():
        lines += [f"- {TITLES[name]}", *(_guarded(rule) for rule in rules if rule.guarded)]
        others = _grouped(
            (escape(rule.note, quote=False), _code(rule.pattern_text)) for rule in rules if not rule.guarded
        )
        if said := "; ".join(f"{names} ({note})" for note, names in others):
            lines.append(f"    - **not guarded**: {said}")
    return "\n".join(lines)


def _guarded(rule: Rule) -> str:
    unique = "" if rule.identity_text == "the name" else f"unique: {rule.identity_text}"
    said = "; ".join(filter(None, [unique, escape(rule.note, quote=False)]))
    return f"    - {_code(rule.pattern_text)}" + (f" ({said})" if said else "")


def findings() -> str:
    """Return what an inspection can find, and what to do then."""
    lines = []
    for kind, what in MEANINGS.items():
        titles = "all" if {*what.formats} == INSPECTED else ", ".join(TITLES[name] for name in what.formats)
        notice = "" if what.severity is Severity.DAMAGE else "; a notice"
        lines.append(f"- **`{kind.value}`** ({titles}{notice}): {what.means}.\n  **Do:** {what.do}.")
    return "\n".join(lines)


def settings() -> list[str]:
    """Return what becomes of Hadoop's settings: of S3A, the GCS connector, ABFS, then the rest."""
    clients = json.loads(HADOOP.read_text())
    rest = (
        (why, _spelled(scheme, key))
        for scheme, client in clients.items()
        for why, keys in client["of no matter"].items()
        if not why.startswith("WASB")  # the page has no list of these
        for key in keys
    )
    ignored = (f"- {why} {keys}" for why, keys in _grouped(rest))
    return [each for scheme, client in clients.items() for each in _settings(scheme, client["mapped"])] + [
        "\n".join(ignored)
    ]


def _settings(scheme: str, becomes: Mapping[str, str]) -> Iterator[str]:
    mapped = ((to, _spelled(scheme, key)) for key, to in becomes.items())
    yield "\n".join(f"- {keys}: {to}" for to, keys in _grouped(mapped))
    refused = (
        (
            why,
            _spelled(scheme, key)
            + (f" ({', '.join(f'`{each}`' for each in passing)} passes)" if passing else ""),
        )
        for key, (why, passing, _) in SCHEMES[scheme].refused.items()
    )
    yield "\n".join(f"- {keys} {why}" for why, keys in _grouped(refused))


def _spelled(scheme: str, key: str) -> str:
    return f"`{SCHEMES[scheme].prefixes[0]}{key}{'*' * key.endswith('.')}`"


def _grouped(meanings: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield each meaning, with all settings that have it."""
    keys: dict[str, list[str]] = {}
    for meaning, key in meanings:
        keys.setdefault(meaning, []).append(key)
    return ((meaning, ", ".join(some)) for meaning, some in keys.items())


def _code(names: str) -> str:
    # What follows the last blank outside <...> is prose.
    parts = re.split(r"([,;] )", names.replace("|", " or "))
    return "".join(part if at % 2 else PROSE.sub(r"`\1`\2", part) for at, part in enumerate(parts))


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: formats(), PAGE.read_text()))
    tables = iter(settings())
    SETTINGS.write_text(TABLE.sub(lambda _: next(tables), SETTINGS.read_text()))
    FINDINGS.write_text(TABLE.sub(lambda _: findings(), FINDINGS.read_text()))
