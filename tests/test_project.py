"""What the project says of itself is so: its entry points, what an import costs, its documentation."""

from __future__ import annotations

import importlib
import json
import os
import re
import runpy
import subprocess
import sys
from dataclasses import fields
from importlib.metadata import requires, version
from pathlib import Path
from typing import Any

import fsspec
import pytest
import yaml

import putifabsent
from putifabsent import errors
from putifabsent.shim.policy import bucket_policy

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

PROTOCOLS = {
    "pias3": "GuardedS3FileSystem",
    "piags": "GuardedGCSFileSystem",
    "piaaz": "GuardedAzureFileSystem",
    "piafile": "GuardedLocalFileSystem",
    "piamemory": "GuardedMemoryFileSystem",
    "putifabsent": "GuardedFileSystem",
}

# Prints the packages that a statement loads, but for Python's own, and fsspec with what it loads itself.
LOADED = """
import sys
import sysconfig
{baseline}
before = set(sys.modules)
{statement}
places = {{sysconfig.get_path(name) for name in ("purelib", "platlib")}}
loaded = {{
    name.partition(".")[0]
    for name, module in sys.modules.items()
    if name not in before and (getattr(module, "__file__", None) or "").startswith(tuple(places))
}}
print(*sorted(loaded - {{"fsspec"}}))
"""


def loaded_by(statement: str, baseline: str = "") -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(statement=statement, baseline=baseline)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout.split()


def test_importing_it_loads_no_package_but_fsspec() -> None:
    assert loaded_by("import putifabsent") == []


def test_the_probe_for_loaded_packages_sees_one() -> None:
    assert "pytest" in loaded_by("import pytest")


@pytest.mark.parametrize(("protocol", "name"), PROTOCOLS.items())
def test_a_protocol_resolves_by_its_entry_point(protocol: str, name: str) -> None:
    found = fsspec.get_filesystem_class(protocol)
    assert found is getattr(importlib.import_module("putifabsent.fsspec_plugin"), name)


def test_resolving_a_protocol_loads_no_client_library() -> None:
    resolving = f"for protocol in {[*PROTOCOLS]}: fsspec.get_filesystem_class(protocol)"
    assert loaded_by(resolving, "import fsspec, fsspec.core") == []


def test_the_console_script_is_there() -> None:
    script = Path(sys.executable).parent / "putifabsent"
    done = subprocess.run([script, "--help"], check=True, capture_output=True, text=True, timeout=60)
    assert "probe" in done.stdout


def test_the_version_is_the_package_s() -> None:
    assert putifabsent.__version__ == version("putifabsent")


def test_every_place_that_has_the_version_has_the_same() -> None:
    for file, pattern in {
        "pyproject.toml": r'^version = "(.+)"$',
        "hadoop/pom.xml": r"^  <version>(.+)</version>$",
        "docs/operations/kubernetes.yaml": r"image: .*/putifabsent:(.+)$",
    }.items():
        assert re.findall(pattern, (ROOT / file).read_text(), re.MULTILINE) == [putifabsent.__version__], file


def test_ci_runs_on_every_python_that_the_package_names() -> None:
    matrix = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["run"]["strategy"][
        "matrix"
    ]
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    assert {*named} <= {*matrix["python"]}


@pytest.mark.parametrize("name", ["audit", "ci", "release"])
def test_a_workflow_runs_scripts_that_are_there(name: str) -> None:
    workflow = yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text())
    [job] = workflow["jobs"].values()
    [script] = [step["run"] for step in job["steps"] if "run" in step]
    assert os.access(ROOT / script, os.X_OK)
    assert workflow["permissions"] == {"contents": "read"}


@pytest.mark.parametrize(
    ("tag", "said"),
    [("v0.0.0", "the tag is v0.0.0"), (f"v{putifabsent.__version__}.dev9", "one of them is wrong")],
)
def test_a_tag_that_is_not_the_version_builds_nothing(tag: str, said: str) -> None:
    done = subprocess.run(
        [ROOT / "tools/release/build.sh"],
        env={**os.environ, "TAG": tag},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert said in done.stderr


def test_all_has_every_extra_that_goes_with_the_others() -> None:
    needs: dict[str, set[str]] = {}
    for line in requires("putifabsent") or ():
        requirement, _, extra = line.partition("; extra == ")
        needs.setdefault(extra.strip("'\""), set()).add(requirement.strip())
    together = needs.keys() - {"", "all", "demo", "paimon"}
    assert needs["all"] == set().union(*(needs[extra] for extra in together))


def test_every_error_has_its_section() -> None:
    classes = {name for name in putifabsent.__all__ if name in vars(errors)} - {"Holder"}
    assert set(re.findall(r"^## (\w+)$", page("reference/errors.md"), re.MULTILINE)) == classes


def test_what_the_error_page_says_of_bases_is_so() -> None:
    rows = re.findall(
        r"^- \[`(\w+)`\]\(#\w+\)(?:, an? `(\w+)`)?: ", page("reference/errors.md"), re.MULTILINE
    )
    assert len(rows) > 1
    for name, said in rows:
        bases = [base.__name__ for base in getattr(errors, name).__bases__ if base.__module__ == "builtins"]
        assert bases == ([said] if said else []), name


def test_every_option_of_the_filesystem_is_documented() -> None:
    from putifabsent.fsspec_plugin.options import Options

    documented = re.findall(r"^\| `(\w+)` \| (.*) \| .* \|$", options_table(), re.MULTILINE)
    assert {name for name, _ in documented} == {field.name for field in fields(Options)}
    defaults = {name: default.strip("`") for name, default in documented}
    assert defaults["arbiter"] == f'"{Options().arbiter}"'
    assert defaults["formats"] == f'"{Options.formats}"'
    assert float(defaults["deadline"]) == Options.deadline


def options_table() -> str:
    return page("reference/options.md").partition("| option |")[2].partition("\n## ")[0]


def test_the_tutorial_runs_as_written(tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", page("tutorial.md"), re.MULTILINE | re.DOTALL))
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert "the name is taken" in done.stdout


@pytest.mark.parametrize("path", [*DOCS.rglob("*.md"), *ROOT.glob("*.md")], ids=lambda path: path.name)
def test_code_in_the_documentation_is_well_formed(path: Path) -> None:
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL):
        if language == "json":
            json.loads(block)
        if language == "python":
            compile(block, str(path), "exec")


@pytest.mark.parametrize("path", sorted(ROOT.glob("*.md")), ids=lambda path: path.name)
def test_links_beside_the_documentation_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text())
    assert [target for target in targets if not (ROOT / target).exists()] == []


def sentences(page: str) -> list[str]:
    """Return the sentences of a page's paragraphs and lists, without its code and its tables."""
    prose = re.sub(r"^ *```.*?^ *```", "", page, flags=re.DOTALL | re.MULTILINE)
    lines = [line for line in prose.splitlines() if not line.lstrip().startswith(("|", "#"))]
    parted = re.sub(r"^\s*(?:[-*]|\d+\.) ", "\n", "\n".join(lines), flags=re.MULTILINE)
    return [
        sentence
        for paragraph in re.split(r"\n\s*\n", parted)
        for sentence in re.split(r"(?<=[.!?:])\s+", paragraph)
    ]


def test_hardly_a_sentence_has_more_than_thirty_words() -> None:
    """Of those that tell a user what to do; decisions are for those who carry the project on."""
    pages = [path for path in DOCS.rglob("*.md") if path.parent.name != "decisions"]
    found = [sentence for path in pages for sentence in sentences(path.read_text())]
    assert len(found) > 1000
    long = [sentence for sentence in found if len(sentence.split()) > 30]
    assert len(long) < len(found) / 50, long


def test_every_title_asks_what_its_reader_does() -> None:
    """Each page begins with a question."""
    for path in DOCS.rglob("*.md"):
        if path.parent.name != "decisions":
            title = path.read_text().partition("\n")[0]
            assert re.fullmatch(r"# .+\?", title), (path, title)


def test_the_page_s_bucket_policy_is_what_the_command_prints() -> None:
    [policy] = [p for p in json_of(page("operations/bucket-policy.md")) if "Statement" in p]
    assert policy == bucket_policy("BUCKET", ["delta", "iceberg", "paimon"])


def test_the_table_of_formats_is_the_policy_s_own() -> None:
    tables = runpy.run_path(str(DOCS / "tables.py"))
    assert tables["formats"]() in page("reference/formats.md"), "`make format` draws it"


def test_the_table_of_findings_is_the_inspection_s_own() -> None:
    tables = runpy.run_path(str(DOCS / "tables.py"))
    assert tables["findings"]() in page("how-to/inspect.md"), "`make format` draws it"


def test_the_tables_of_settings_are_the_mounts_own() -> None:
    tables = runpy.run_path(str(DOCS / "tables.py"))
    for table in tables["settings"]():
        assert table in page("reference/settings.md"), "`make format` draws it"


def page(name: str) -> str:
    return (DOCS / name).read_text()


def json_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL)]
