"""The promises, as questions to a history: each asks for what breaks it, and an answer without rows is good.

DuckDB asks them on this machine, Spark on a cluster. They are plain SQL over one view, ``history``, with the
columns of :class:`.journal.Operation`, and mean the same to DuckDB and to Spark. Each returns a ``name``, and
in ``detail`` what is wrong with it.

Nothing is deleted under stress, so a name is a register that is written at most once. Its history is
linearizable (Herlihy and Wing, "Linearizability", 1990) exactly if there is one content that all reads found,
somebody offered it, no other creation was acknowledged, nobody who lost offered it, nobody had evidence of it
before its creation began, and nobody found nothing after somebody had evidence. Reads, losses and
acknowledgements are evidence. Where a name has an identity beside it (Hudi's instants), a loser need not find
this very name, nor ever any: its rival holds the instant before it has written a byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

PROMISES = {
    "U": "one creation of a name is acknowledged",
    "B": "bytes that were readable do not change",
    "K": "what was acknowledged is kept, and no winner is told that it lost",
    "T": "a name that is reported as taken was lost to another writer",
    "L": "one order explains all responses",
}


# When a name was first known to be there, by the clock of each host.
_KNOWN = """
    select name, host, min(ended) as moment from history
    where ended is not null
    and (outcome in ('created', 'found') or (outcome = 'taken' and identity = name))
    group by name, host
"""
# Who holds a name: whose content was read, and whose creation was acknowledged.
_HOLDER = """
    select distinct creation.name, creation.host, creation.begun
    from history creation left join history found
    on found.action = 'read' and found.name = creation.name and found.seen = creation.offered
    where creation.action = 'create' and (creation.outcome = 'created' or found.name is not null)
"""
# Reads that an earlier creation must be visible to.
_LATER = "(later.closing or (later.host = creation.host and later.begun > creation.ended))"

RULES = {
    ("U", "more than one creation was acknowledged"): """
        select identity as name, concat(cast(count(*) as string), ' creations were acknowledged') as detail
        from history where action = 'create' and outcome = 'created'
        group by identity having count(*) > 1
    """,
    ("U", "more than one name of one identity is there"): """
        select creation.identity as name,
        concat(cast(count(distinct creation.name) as string), ' names are there') as detail
        from history creation join history found
        on found.closing and found.outcome = 'found' and found.name = creation.name
        where creation.action = 'create' and creation.identity <> creation.name
        group by creation.identity having count(distinct creation.name) > 1
        and count(distinct case when creation.outcome = 'created' then creation.name end) < 2
    """,
    ("B", "its bytes have changed"): """
        select name, concat(cast(count(distinct seen) as string), ' contents were read') as detail
        from history where action = 'read' and outcome = 'found'
        group by name having count(distinct seen) > 1
    """,
    ("B", "it has bytes that nobody wrote"): """
        select found.name, concat('read were ', found.seen) as detail
        from history found left join history creation
        on creation.action = 'create' and creation.name = found.name and creation.offered = found.seen
        where found.action = 'read' and found.outcome = 'found' and creation.name is null
        group by found.name, found.seen
    """,
    ("B", "its plain bytes are others"): """
        select plain.name, concat('without putifabsent, read were ', plain.seen) as detail
        from history plain join history found
        on found.closing and found.action = 'read' and found.name = plain.name and found.seen <> plain.seen
        where plain.action = 'plain'
    """,
    ("K", "an acknowledged creation is gone"): f"""
        select creation.name, concat(creation.offered, ' was acknowledged, and is not there') as detail
        from history creation join history later
        on later.action = 'read' and later.name = creation.name
        where creation.action = 'create' and creation.outcome = 'created'
        and (later.seen <> creation.offered or (later.outcome = 'absent' and {_LATER}))
        group by creation.name, creation.offered
    """,
    ("K", "an acknowledged creation can't be read"): """
        select creation.name, max(failed.error) as detail
        from history creation join history failed
        on failed.closing and failed.outcome = 'failed' and failed.name = creation.name
        where creation.action = 'create' and creation.outcome = 'created'
        group by creation.name
    """,
    ("K", "a winner was told that it lost"): """
        select creation.name, concat(creation.offered, ' was told that it lost, and is there') as detail
        from history creation join history found
        on found.action = 'read' and found.name = creation.name and found.seen = creation.offered
        where creation.action = 'create' and creation.outcome in ('taken', 'fenced')
        group by creation.name, creation.offered
    """,
    ("K", "two commits are there that had not seen each other"): """
        select creation.folder as name,
        concat(cast(count(distinct creation.name) as string), ' commits followed on ', creation.saw) as detail
        from history creation left join history found
        on found.closing and found.name = creation.name and found.seen = creation.offered
        where creation.purpose = 'commit' and creation.saw is not null
        and (creation.outcome = 'created' or found.name is not null)
        group by creation.folder, creation.saw having count(distinct creation.name) > 1
    """,
    ("T", "it was called taken when nobody else had begun to create it"): """
        select loser.name, concat(loser.offered, ' lost to nobody') as detail
        from history loser left join history other
        on other.action = 'create' and other.identity = loser.identity and other.offered <> loser.offered
        and (other.host <> loser.host or other.begun < loser.ended)
        and coalesce(other.outcome, '') not in ('taken', 'fenced')
        where loser.action = 'create' and loser.outcome = 'taken' and other.name is null
    """,
    ("T", "it was called taken, and nobody has it"): """
        select loser.name, concat(loser.offered, ' lost, and the name is not there') as detail
        from history loser join history closing_read
        on closing_read.closing and closing_read.name = loser.name and closing_read.outcome = 'absent'
        where loser.action = 'create' and loser.outcome = 'taken' and loser.identity = loser.name
    """,
    ("L", "it was not there, after it had been"): f"""
        select absent.name, concat('writer ', cast(absent.writer as string), ' did not find it') as detail
        from history absent
        join ({_KNOWN}) known
        on known.name = absent.name and known.host = absent.host and absent.begun > known.moment
        where absent.action = 'read' and absent.outcome = 'absent' and not absent.closing
    """,
    ("L", "it was read, and is gone"): """
        select found.name, concat('writer ', cast(min(found.writer) as string), ' had found it') as detail
        from history found join history absent
        on absent.closing and absent.outcome = 'absent' and absent.name = found.name
        where found.action = 'read' and found.outcome = 'found'
        group by found.name
    """,
    ("L", "it was read, and its folder's listing leaves it out"): """
        select left_out.name, concat('listed was ', left_out.folder) as detail
        from history left_out join history found
        on found.closing and found.action = 'read' and found.outcome = 'found' and found.name = left_out.name
        where left_out.action = 'list'
    """,
    ("L", "it was there, before its creation had begun"): f"""
        select holder.name, 'it was known before the creation that made it' as detail
        from ({_HOLDER}) holder
        join ({_KNOWN}) known
        on known.name = holder.name and known.host = holder.host and known.moment < holder.begun
    """,
}
"""By the letter of the promise that an answer breaks, and what has happened then."""


class Violation(NamedTuple):
    """A promise that was broken: the rule's letter and breach, the name, and what is wrong with it."""

    promise: str
    breach: str
    name: str
    detail: str


def judge(history: pa.Table) -> list[Violation]:
    """Return what broke a promise; an empty list is what one hopes for."""
    import duckdb

    with duckdb.connect() as connection:
        connection.register("history", history)
        return _violations(lambda sql: connection.execute(sql).fetchall())


def judge_on_spark(history: DataFrame) -> list[Violation]:
    """Return the same of a history that is a DataFrame."""
    session = history.sparkSession
    history.createOrReplaceTempView("history")
    try:
        return _violations(lambda sql: map(tuple, session.sql(sql).collect()))
    finally:
        session.catalog.dropTempView("history")


def _violations(ask: Callable[[str], Iterable[tuple[str, str]]]) -> list[Violation]:
    return [
        Violation(*broken, name, detail) for broken, sql in RULES.items() for name, detail in sorted(ask(sql))
    ]


def count(violations: Iterable[Violation]) -> Counter[str]:
    """Return how often each promise was broken, by its letter."""
    return Counter(each.promise for each in violations)
