-- DuckDB's questions to one view, `history`, whose columns are an operation's (writers.py). Each returns a `name`,
-- and in `detail` what is wrong with it; an answer without rows is good. The heading says which promise is broken
-- then, and how.

-- when a name was first known to be there, by the clock of each host; for all questions
with known as (
    select name, host, min(ended) as moment from history
    where ended is not null
    and (outcome in ('created', 'found') or (outcome = 'taken' and identity = name))
    group by name, host
)

-- U: more than one creation was acknowledged
select identity as name, concat(cast(count(*) as string), ' creations were acknowledged') as detail
from history where action = 'create' and outcome = 'created'
group by identity having count(*) > 1

-- U: more than one name of one identity is there
select creation.identity as name,
concat(cast(count(distinct creation.name) as string), ' names are there') as detail
from history creation join history found
on found.closing and found.outcome = 'found' and found.name = creation.name
where creation.action = 'create' and creation.identity <> creation.name
group by creation.identity having count(distinct creation.name) > 1
and count(distinct case when creation.outcome = 'created' then creation.name end) < 2

-- B: its bytes have changed
select name, concat(cast(count(distinct seen) as string), ' contents were read') as detail
from history where action = 'read' and outcome = 'found'
group by name having count(distinct seen) > 1

-- B: it has bytes that nobody wrote
select found.name, concat('read were ', found.seen) as detail
from history found left join history creation
on creation.action = 'create' and creation.name = found.name and creation.offered = found.seen
where found.action = 'read' and found.outcome = 'found' and creation.name is null
group by found.name, found.seen

-- B: its plain bytes are others
select plain.name, concat('without putifabsent, read were ', plain.seen) as detail
from history plain join history found
on found.closing and found.action = 'read' and found.name = plain.name and found.seen <> plain.seen
where plain.action = 'plain'

-- K: an acknowledged creation is gone
select creation.name, concat(creation.offered, ' was acknowledged, and is not there') as detail
from history creation join history later
on later.action = 'read' and later.name = creation.name
where creation.action = 'create' and creation.outcome = 'created'
and (
    later.seen <> creation.offered
    -- by a read that the creation must be visible to
    or later.outcome = 'absent' and (later.closing or later.host = creation.host and later.begun > creation.ended)
)
group by creation.name, creation.offered

-- K: an acknowledged creation can't be read
select creation.name, max(failed.error) as detail
from history creation join history failed
on failed.closing and failed.outcome = 'failed' and failed.name = creation.name
where creation.action = 'create' and creation.outcome = 'created'
group by creation.name

-- K: a winner was told that it lost
select creation.name, concat(creation.offered, ' was told that it lost, and is there') as detail
from history creation join history found
on found.action = 'read' and found.name = creation.name and found.seen = creation.offered
where creation.action = 'create' and creation.outcome in ('taken', 'fenced')
group by creation.name, creation.offered

-- K: two commits are there that had not seen each other
select creation.folder as name,
concat(cast(count(distinct creation.name) as string), ' commits followed on ', creation.saw) as detail
from history creation left join history found
on found.closing and found.name = creation.name and found.seen = creation.offered
where creation.purpose = 'commit' and creation.saw is not null
and (creation.outcome = 'created' or found.name is not null)
group by creation.folder, creation.saw having count(distinct creation.name) > 1

-- T: it was called taken when nobody else had begun to create it
select loser.name, concat(loser.offered, ' lost to nobody') as detail
from history loser left join history other
on other.action = 'create' and other.identity = loser.identity and other.offered <> loser.offered
and (other.host <> loser.host or other.begun < loser.ended)
and coalesce(other.outcome, '') not in ('taken', 'fenced')
where loser.action = 'create' and loser.outcome = 'taken' and other.name is null

-- T: it was called taken, and nobody has it
select loser.name, concat(loser.offered, ' lost, and the name is not there') as detail
from history loser join history closing_read
on closing_read.closing and closing_read.name = loser.name and closing_read.outcome = 'absent'
where loser.action = 'create' and loser.outcome = 'taken' and loser.identity = loser.name

-- L: it was not there, after it had been
select absent.name, concat('writer ', cast(absent.writer as string), ' did not find it') as detail
from history absent
join known
on known.name = absent.name and known.host = absent.host and absent.begun > known.moment
where absent.action = 'read' and absent.outcome = 'absent' and not absent.closing

-- L: it was read, and is gone
select found.name, concat('writer ', cast(min(found.writer) as string), ' had found it') as detail
from history found join history absent
on absent.closing and absent.outcome = 'absent' and absent.name = found.name
where found.action = 'read' and found.outcome = 'found'
group by found.name

-- L: it was read, and its folder's listing leaves it out
select left_out.name, concat('listed was ', left_out.folder) as detail
from history left_out join history found
on found.closing and found.action = 'read' and found.outcome = 'found' and found.name = left_out.name
where left_out.action = 'list'

-- L: it was there, before its creation had begun
select holder.name, 'it was known before the creation that made it' as detail
from (
    -- who holds a name: whose content was read, and whose creation was acknowledged
    select distinct creation.name, creation.host, creation.begun
    from history creation left join history found
    on found.action = 'read' and found.name = creation.name and found.seen = creation.offered
    where creation.action = 'create' and (creation.outcome = 'created' or found.name is not null)
) holder
join known
on known.name = holder.name and known.host = holder.host and known.moment < holder.begun
