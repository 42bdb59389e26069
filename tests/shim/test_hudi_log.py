"""Log files: all blocks of one that is whole, and never a record of one that isn't."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from putifabsent.shim.formats.hudi_files import blocks
from tests.timeline.tables import block, entry

WHOLE = block([entry("1", "commit", "COMPLETED"), entry("2", "clean", "COMPLETED")])


def of_kind(kind: int) -> bytes:
    """Return the same block as one of another kind."""
    at = 6 + 8 + 4
    return WHOLE[:at] + struct.pack(">i", kind) + WHOLE[at + 4 :]


def test_all_records_of_all_blocks_are_there() -> None:
    assert [len(each.records) for each in blocks(WHOLE + WHOLE)] == [2, 2]


def test_an_empty_file_has_no_blocks() -> None:
    assert list(blocks(b"")) == []


def test_blocks_of_other_kinds_are_passed_over() -> None:
    assert [len(each.records) for each in blocks(of_kind(0) + WHOLE + of_kind(1))] == [2]


def test_a_cut_is_noticed_wherever_it_is() -> None:
    for length in range(1, len(WHOLE)):
        found = blocks(WHOLE + WHOLE[:length])
        next(found)
        with pytest.raises(ValueError, match="block"):
            next(found)


@given(st.binary(max_size=200))
def test_whatever_the_bytes_it_is_a_block_or_a_value_error(noise: bytes) -> None:
    with suppress(ValueError):
        assert list(blocks(noise)) == []


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_a_damaged_byte_never_gives_more_records(at: int, byte: int) -> None:
    damaged = WHOLE[:at] + bytes([byte]) + WHOLE[at + 1 :]
    try:
        found = list(blocks(damaged))
    except ValueError:
        return
    assert sum(len(each.records) for each in found) <= 2
