"""Half of what a format writes is found out wherever it was cut; all else passes."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING

import pytest

from putifabsent import shim as shim_package
from putifabsent.backends.base import Body, InMemory
from putifabsent.errors import Damaging
from putifabsent.shim import whole
from putifabsent.shim.formats.hudi_salt import kept_as
from putifabsent.shim.names import Name, Role
from putifabsent.shim.whole import LARGE, check_whole, lack_of
from tests.mutation import Change
from tests.shim.whole_bodies import BODIES, EMPTY, HALVES, UNKNOWN, Written, avro, named, written_by_formats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Judge = Callable[[Name, Body], str | None]

COMMIT = named(BODIES["Avro of Hudi"].path)


def unnoticed(judge: Judge, written: Written) -> frozenset[int]:
    """Return the lengths, shorter than all, to which a body may be cut and pass."""
    name = named(written.path)
    return frozenset(
        length for length in range(len(written.body)) if judge(name, InMemory(written.body[:length])) is None
    )


@pytest.mark.parametrize("what", BODIES)
def test_what_a_format_writes_is_whole(what: str) -> None:
    written = BODIES[what]
    assert lack_of(named(written.path), InMemory(written.body)) is None


@pytest.mark.parametrize("what", BODIES)
def test_half_of_it_is_found_out_wherever_it_is_cut(what: str) -> None:
    assert unnoticed(lack_of, BODIES[what]) == BODIES[what].cuts


def test_every_guarded_name_that_real_writers_have_made_is_whole() -> None:
    there = written_by_formats()
    assert len(there) > 400
    lacks = {each.path: lack_of(named(each.path), InMemory(each.body)) for each in there}
    assert {path: lack for path, lack in lacks.items() if lack is not None} == {}


def kinds_of_real_files() -> dict[str, Written]:
    """Return one real file a kind of name, the shortest one that has bytes."""
    found: dict[str, Written] = {}
    for each in sorted((each for each in written_by_formats() if each.body), key=lambda e: -len(e.body)):
        table, _, path = each.path.removeprefix("bucket/").partition("/")
        version = "version 6 " if table in ("hudi_v6", "hudi_0_15") else ""
        found[version + re.sub(r"[0-9]+", "N", path)] = each
    return found


@pytest.mark.parametrize("kind", kinds_of_real_files())
def test_half_of_a_real_file_is_found_out_wherever_it_is_cut(kind: str) -> None:
    written = kinds_of_real_files()[kind]
    may_be_empty = {0} if kind.endswith((".requested", ".json")) else set()
    lines = {match.end() - 1 for match in re.finditer(rb"\}\n", written.body)}
    lines |= {end + 1 for end in lines}
    can_not_be_told = lines - {len(written.body)} if "_delta_log" in kind else set()
    assert unnoticed(lack_of, written) == may_be_empty | can_not_be_told


@pytest.mark.parametrize(("path", "may_be"), EMPTY.items())
def test_nothing_at_all_passes_where_the_format_writes_it(path: str, may_be: bool) -> None:
    assert (lack_of(named(path), InMemory(b"")) is None) is may_be


@pytest.mark.parametrize("path", EMPTY)
@pytest.mark.parametrize("body", UNKNOWN)
def test_what_does_not_begin_as_the_format_does_passes(path: str, body: bytes) -> None:
    assert lack_of(named(path), InMemory(body)) is None


@pytest.mark.parametrize("body", [b'{"half', b"Obj\x01", b""])
def test_what_no_format_guards_passes(body: bytes) -> None:
    by_pattern = Name("bucket/a.json", Role.OTHER, None, None, "bucket/a.json", guarded=True)
    inflight = COMMIT._replace(guarded=False)
    assert lack_of(by_pattern, InMemory(body)) is None
    assert lack_of(inflight, InMemory(body)) is None


@pytest.mark.parametrize(("body", "passes"), [(b"", False), (avro(1)[:-1], False), (avro(1), True)])
def test_an_instant_that_a_session_keeps_for_itself_is_judged_by_its_own_name(
    body: bytes, passes: bool
) -> None:
    kept = COMMIT._replace(path=kept_as(COMMIT.path, "session"))
    assert (lack_of(kept, InMemory(body)) is None) is passes


@pytest.mark.parametrize("what", HALVES)
def test_what_is_half_for_another_reason_is_found_out(what: str) -> None:
    path, body = HALVES[what]
    assert lack_of(named(path), InMemory(body)) is not None


def test_the_refusal_names_the_name_and_says_what_is_wrong_and_what_to_do() -> None:
    with pytest.raises(Damaging, match=r"not created.* last sync marker .* Write it again") as caught:
        check_whole(COMMIT, InMemory(avro(1)[:-1]))
    assert (caught.value.name, caught.value.filename) == (COMMIT.path, COMMIT.path)
    assert not isinstance(caught.value, FileExistsError)


# --- large ones


class Ends(Body):
    """A body of which nobody reads more than its ends."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.size = len(body)

    def read(self, start: int, stop: int) -> bytes:
        assert stop - start <= 2**20
        return self._body[start:stop]


MORE = LARGE + 2000


def large(what: str) -> bytes:
    """Return a large body."""
    line = b'{"add":{"path":"%s"}}' % (b"x" * 1000)
    count = MORE // len(line) + 1
    if what == "Avro":
        return avro(1)[:-16] + b"\0" * MORE + avro(1)[-16:]
    if what == "Parquet":
        body = BODIES["Hudi's history"].body
        return body[:4] + b"\0" * MORE + body[4:]
    if what == "JSON":
        return b'{\n  "files": [\n    ' + b",\n    ".join([line] * count) + b"\n  ]\n}"
    if what == "a Delta commit":
        return (line + b"\n") * count
    return b"v1\n" + b"\n".join([line] * count)


LARGE_ONES = {
    "Avro": "Avro of Hudi",
    "Parquet": "Hudi's history",
    "JSON": "a manifest of Hudi's history",
    "a Delta commit": "a Delta commit",
    "Spark's sink": "Spark's sink, compacted",
}


def unnoticed_in_large(judge: Judge, what: str) -> list[int]:
    """Return by how many bytes a large body may be cut, up to some, and pass."""
    name, body = named(BODIES[LARGE_ONES[what]].path), large(what)
    return [cut for cut in (0, *range(1, 60), 1500) if judge(name, Ends(body[: len(body) - cut])) is None]


@pytest.mark.parametrize("what", LARGE_ONES)
def test_a_large_one_is_judged_by_its_ends(what: str) -> None:
    at_the_end_of_a_line = [1] if what == "a Delta commit" else []
    assert unnoticed_in_large(lack_of, what) == [0, *at_the_end_of_a_line]


def test_a_line_that_is_longer_than_what_is_looked_at_ends_with_its_brace() -> None:
    name, body = named(BODIES["a Delta commit"].path), b'{"x":"' + b"x" * MORE + b'"}\n'
    assert lack_of(name, Ends(body)) is None
    assert lack_of(name, Ends(body[:-2])) is not None


def test_a_packed_one_that_is_large_inside_is_judged_by_its_ends() -> None:
    path, inside = BODIES["Iceberg metadata, packed"].path, large("JSON")
    assert lack_of(named(path), InMemory(gzip.compress(inside, 1))) is None
    assert lack_of(named(path), InMemory(gzip.compress(inside[:-1], 1))) is not None
    assert lack_of(named(path), InMemory(gzip.compress(inside, 1)[:-1])) is not None


# --- wrong ones

MUTANTS = tuple(
    Change(name, "whole", old, new)
    for name, old, new in (
        (
            "what is not guarded is judged",
            "return name.guarded and name.format in _RULES",
            "return name.format in _RULES",
        ),
        ("anything may be empty", 'else f"there are none', 'else None and f"there are none'),
        ("nothing may be empty", "return None if _may_be_empty(name) else", "return"),
        ("a completed instant may be empty", 'step.state != "completed"', "True"),
        ("a header of Avro is enough", "if seen.size <= data:", "if False:"),
        ("any end will do for Avro", "seen.tail[-_SYNC:] == header[sync:data]", "True"),
        ("half a header passes", "return _CUT_OFF if seen.size <= _END else None", "return None"),
        (
            "half of the first letters passes",
            "return _CUT_OFF if _AVRO.startswith(seen.head)",
            "return None if True",
        ),
        ("sizes of maps are taken for keys", "if count < 0:", "if False:"),
        ("brackets are not counted", """b'{["'""", """b'{"'"""),
        ("braces in strings count", """b"".join(structure.split(b'"')[::2])""", "structure"),
        ("an escaped quote ends a string", """.replace(b'\\\\"', b"")""", ""),
        ("an escaped backslash escapes", '.replace(b"\\\\\\\\", b"")', ""),
        (
            "what is packed is not looked at",
            "    return _document(\n        _Ends(size, inside",
            "    return None and _document(\n        _Ends(size, inside",
        ),
        ("a packed one needs no end", "    while not stream.eof:", "    while packed:"),
        ("the letters alone make a footer", "0 < length <= seen.size - len(letters) - _FOOTER", "True"),
        ("a version is a commit", "< _LINES.get(log, 1):", "< 1:"),
        (
            "lines of logs are not looked at",
            '        return "its last lines are not there"\n    return _lines(seen)',
            '        return "its last lines are not there"\n    return None',
        ),
        ("half a version passes", 'if first in (b"\\0", b"\\0v", b"v") else', "if False else"),
        ("a large one is read whole", "if body.size > LARGE:", "if False:"),
        ("any brace closes a large one", 'end = b"\\n}" if', 'end = b"}" if'),
        (
            "the last line of a large one is not looked at",
            "    return _left_open(tail[begins:])",
            "    return None",
        ),
        (
            "a long last line is not looked at",
            'return None if tail.endswith(b"}") else "its last line is cut off"',
            "return None",
        ),
    )
)


def finds_out(judge: Judge) -> Iterator[bool]:
    """Say, check by check, whether a judge is wrong."""
    for written in BODIES.values():
        yield judge(named(written.path), InMemory(written.body)) is not None
        yield unnoticed(judge, written) != written.cuts
    for path, may_be in EMPTY.items():
        yield (judge(named(path), InMemory(b"")) is None) is not may_be
    yield judge(COMMIT._replace(guarded=False), InMemory(b"{")) is not None
    for path, body in HALVES.values():
        yield judge(named(path), InMemory(body)) is None
    yield judge(named(BODIES["a Delta commit"].path), Ends(b'{"x":"' + b"x" * MORE)) is None
    for what in LARGE_ONES:
        yield unnoticed_in_large(judge, what) != ([0, 1] if what == "a Delta commit" else [0])


def is_wrong(judge: Judge) -> bool:
    """Whether any check finds a judge out, by whatever it does."""
    try:
        return any(finds_out(judge))
    except (AssertionError, LookupError, RecursionError, TypeError):
        return True


def test_the_judge_itself_is_right() -> None:
    assert not is_wrong(lack_of)


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_each_wrong_judge_is_found_out(mutant: Change) -> None:
    module = mutant.modules(shim_package, ["whole"])["whole"]
    assert is_wrong(module.__dict__["lack_of"])


def test_every_format_has_a_rule() -> None:
    from putifabsent.shim.policy import GRAMMARS

    assert whole._RULES.keys() == GRAMMARS.keys()
