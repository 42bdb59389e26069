"""Where tables lie, and what may lie around them: strategies that all the formats' tests share."""

from __future__ import annotations

from hypothesis import strategies as st

UUID = "b5068208-e1a4-11e6-bf01-fe55135034f3"

LOOKALIKES = (
    ".hoodie-backup",
    "_delta_log=1",
    "branch",
    "branch-dev",
    "changelog",
    "commits",
    "dt=.hoodie",
    "dt=2026-01-01",
    "dt=_delta_log",
    "history",
    "metadata",
    "my.hoodie",
    "offsets",
    "schema",
    "snapshot",
    "snapshot-3",
    "sources",
    "state",
    "timeline",
    "v3.metadata.json",
    "x.db",
)
"""Folders that remind of a format's own, and are not."""

_words = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="/"), min_size=1).filter(
    lambda word: word not in (".hoodie", "_delta_log", ".putifabsent", ".", "..") and word.strip(".")
)

components = st.one_of(_words, st.sampled_from(LOOKALIKES))
"""One component of a path that lies in no format's own folder."""

roots = st.builds(
    lambda above, parts: above + "/".join(parts),
    st.sampled_from(["bucket/", "/", "/data/"]),
    st.lists(components, min_size=1, max_size=4),
)
"""Where a table may lie: in a bucket, or on a disk."""

all_roots = st.one_of(roots, st.sampled_from(["", "bucket"]))
"""The same, and the root of a bucket or of a disk itself."""

uuids = st.uuids().map(str)

longs = st.integers(1, 2**63 - 1)
"""What fits a long, as most formats count."""
