"""Where Hudi's timelines lie, by their tables' properties."""

from __future__ import annotations

import zlib

import pytest

from putifabsent.errors import ConfigError
from putifabsent.shim.formats.hudi_layout import KNOWN, is_whole, layout_of, parsed, that_counts
from putifabsent.shim.formats.hudi_ledger import NEWEST, version_in

PATH = "t/.hoodie/hoodie.properties"


@pytest.mark.parametrize(
    ("line", "pair"),
    [
        ("a.b=c", ("a.b", "c")),
        ("a = b c ", ("a", "b c")),
        ("a: b", ("a", "b")),
        ("a=", ("a", "")),
        (r"a={\"b\"\:\"c\=d\"}", ("a", '{"b":"c=d"}')),
        (r"a\:b=c", ("a:b", "c")),
        (r"a=t\u00E4\u4e2d", ("a", "tä中")),
        (r"a=\uD83D\uDE00\uD83D", ("a", "😀\ufffd")),
    ],
)
def test_properties_are_read_as_java_writes_them(line: str, pair: tuple[str, str]) -> None:
    assert parsed(f"#Sun Nov 22 22:19:11 UTC 2026\n! too\n\n{line}\n".encode()) == dict([pair])


# As Hudi writes them: in no order.
WHOLE = (
    b"#Updated\nhoodie.table.checksum=%d\nhoodie.database.name=d\nhoodie.table.version=9\n"
    b"hoodie.table.name=t\nhoodie.timeline.path=instants\n" % zlib.crc32(b"d.t")
)


def test_properties_are_whole_if_their_checksum_and_their_last_line_are() -> None:
    assert is_whole(WHOLE)
    assert not is_whole(WHOLE.replace(b"name=t", b"name=other"))
    assert not is_whole(b"hoodie.table.name=t\n")
    assert not is_whole(b"hoodie.table.name=\\uD83D\n")
    after_the_names = WHOLE.index(b"hoodie.timeline.path") + 1
    assert [cut for cut in range(after_the_names, len(WHOLE)) if is_whole(WHOLE[:cut])] == []


@pytest.mark.parametrize(
    ("found", "counts"),
    [
        ((WHOLE, None), 0),
        ((WHOLE[:-9], WHOLE), 1),
        ((WHOLE[:60], WHOLE), 1),
        ((b"", WHOLE), 1),
        ((b"", b"hoodie.table.version=6"), 1),
        ((b"hoodie.table.version=6", b""), 0),
        ((WHOLE[:60], WHOLE[:-9]), 0),
        ((b"", None), 0),
        ((None, None), None),
    ],
)
def test_the_first_whole_properties_count(found: tuple[bytes | None, ...], counts: int | None) -> None:
    read = {str(number): each for number, each in enumerate(found) if each is not None}
    assert that_counts(read) == (None if counts is None else str(counts))


def test_the_newest_known_version_is_the_ledger_s() -> None:
    assert max(KNOWN) == NEWEST


def test_the_ledger_takes_a_table_that_does_not_say_its_version_for_a_new_one() -> None:
    assert version_in(b"hoodie.table.name=t\n") == NEWEST
    assert version_in(b"hoodie.table.version=6\n") == 6


@pytest.mark.parametrize(
    ("said", "folders"),
    [
        ("hoodie.table.version=6", (".hoodie", ".hoodie/archived")),
        ("hoodie.table.version=6\nhoodie.archivelog.folder=h", (".hoodie", ".hoodie/h")),
        ("hoodie.table.version=8", (".hoodie/timeline", ".hoodie/timeline/history")),
        (
            "hoodie.table.version=9\nhoodie.archivelog.folder=h",
            (".hoodie/timeline", ".hoodie/timeline/history"),
        ),
        (
            "hoodie.table.version=9\nhoodie.timeline.path=a\nhoodie.timeline.history.path=b",
            (".hoodie/a", ".hoodie/a/b"),
        ),
    ],
)
def test_a_version_says_where_the_timeline_lies(said: str, folders: tuple[str, str]) -> None:
    layout = layout_of(said.encode(), PATH)
    assert (layout.timeline, layout.history) == folders


@pytest.mark.parametrize(
    "said", ["", "hoodie.table.version=", "hoodie.table.version=7", "hoodie.table.version=²"]
)
def test_a_version_that_is_not_known_is_refused(said: str) -> None:
    with pytest.raises(ConfigError, match=PATH):
        layout_of(said.encode(), PATH)
