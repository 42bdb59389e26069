"""Wrong registries: each is the right one with one change in its text, by which it forgets or lies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from putifabsent import backends
from tests.mutation import Change

if TYPE_CHECKING:
    from collections.abc import Mapping

_DYNAMODB = ("aws_session", "dynamodb_client")


@dataclass(frozen=True)
class Mutant(Change):
    """One change of a registry.

    Attributes
    ----------
    caught_by
        The test that must fail.
    arguments
        What that test takes beside its fixtures.
    """

    caught_by: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def registry(self, right: type) -> Any:
        """Return the class of the registry with this change."""
        source = right.__module__.rpartition(".")[2]
        family = (*(_DYNAMODB if source.startswith("dynamodb") else ()), source)
        return self.modules(backends, family)[source].__dict__[right.__name__]


LOCKS = (
    Mutant(
        "unlock without owner check",
        "redis",
        '_RELEASE = f"{_IF_MINE}redis',
        '_RELEASE = f"redis',
        "test_another_owner_cannot_release_it",
    ),
    Mutant(
        "whoever asks last has the lock", "redis", ", 'NX', 'PX'", ", 'PX'", "test_a_held_lock_is_not_taken"
    ),
    Mutant(
        "a lease that never ends",
        "redis",
        ", 'NX', 'PX', ARGV[2])",
        ", 'NX')",
        "test_a_lease_ends_by_itself",
    ),
    Mutant(
        "seconds for milliseconds",
        "redis",
        "int(lease * 1000)",
        "int(lease)",
        "test_a_held_lock_stays_so_until_its_lease_ends",
    ),
)

CLAIMS = (
    # What is decided
    Mutant(
        "the first claim is written whatever is there",
        "dynamodb",
        '"attribute_not_exists(#folder)"}\n',
        '"attribute_not_exists(#folder) OR attribute_exists(#folder)"}\n',
        "test_a_loser_gets_the_winner",
    ),
    Mutant(
        "claim not tied to its incarnation",
        "dynamodb",
        "#incarnation = :incarnation AND ",
        ":incarnation = :incarnation AND ",
        "test_each_part_of_what_was_expected_counts[incarnation]",
    ),
    Mutant(
        "dead or alive is all the same",
        "dynamodb",
        "#live = :live AND ",
        ":live = :live AND ",
        "test_each_part_of_what_was_expected_counts[live]",
    ),
    Mutant(
        "no token in the condition",
        "dynamodb",
        "#token = :token",
        ":token = :token",
        "test_each_part_of_what_was_expected_counts[token]",
    ),
    Mutant(
        "a loser is told that nothing is there",
        "dynamodb",
        '| None = error.response.get("Item")',
        "| None = None",
        "test_a_loser_gets_the_winner",
    ),
    # What is kept
    Mutant(
        "whatever is there is forgotten",
        "dynamodb",
        '"delete_item", Key=key_of(identity), **only_if(expected)',
        '"delete_item", Key=key_of(identity)',
        "test_only_the_claim_that_was_expected_is_forgotten[token]",
    ),
    Mutant(
        "TTL on claims",
        "dynamodb_client",
        "            return bool(made)\n",
        '            await table.send("update_time_to_live",\n'
        '                TimeToLiveSpecification={"Enabled": True, "AttributeName": "incarnation"})\n'
        "            return bool(made)\n",
        "test_init_makes_a_table_that_costs_nothing_idle_and_forgets_nothing",
    ),
    Mutant(
        "TTL is not looked for",
        "dynamodb_client",
        'in ("ENABLED", "ENABLING")',
        "in ()",
        "test_a_table_whose_items_expire_is_refused",
    ),
    Mutant(
        "a table made anew is the old one",
        "dynamodb_client",
        'known = described.get("TableId")',
        'known = "always"',
        "test_a_table_made_anew_is_another_registry",
    ),
    Mutant(
        "long keys are cut",
        "dynamodb",
        "return _HASHED + hashlib.sha256(text.encode()).hexdigest()",
        'return text.encode()[:1000].decode(errors="ignore") or "#"',
        "test_an_identity_may_be_longer_than_any_key[100-1500]",
    ),
    Mutant(
        "a hash meets a name",
        "dynamodb",
        "not text.startswith(_HASHED) and ",
        "",
        "test_a_hash_never_meets_a_name",
    ),
    # What is read
    Mutant(
        "a claim read from a copy that lags behind",
        "dynamodb",
        "key_of(identity), ConsistentRead=True",
        "key_of(identity)",
        "test_every_read_is_strongly_consistent",
    ),
    Mutant(
        "a listing from a copy that lags behind",
        "dynamodb",
        "self._table.send(method, ConsistentRead=True, ",
        "self._table.send(method, ",
        "test_every_read_is_strongly_consistent",
    ),
    Mutant(
        "a listing ends with its first page",
        "dynamodb",
        'answer["Items"])), more)',
        'answer["Items"])), None)',
        "test_a_long_listing_has_several_pages",
    ),
    # What is not known
    Mutant(
        "502 means that nothing was written",
        "dynamodb_client",
        "if status >= 500 or ",
        "if status >= 600 or ",
        "test_each_call_is_one_request_whatever_becomes_of_it[GATEWAY_AFTER]",
    ),
    Mutant(
        "a dropped connection means that nothing was written",
        "aws_session",
        "    if isinstance(error, _LOST):\n        return base.Maybe(error)",
        "    if isinstance(error, _LOST):\n        return base.TryAgain(error)",
        "test_each_call_is_one_request_whatever_becomes_of_it[DROPPED_AFTER]",
    ),
    Mutant(
        "throttling is taken for a refusal",
        "dynamodb_client",
        "    if code in _THROTTLED or ",
        "    if ",
        "test_throttling_passes_and_has_written_nothing[THROUGHPUT]",
    ),
    Mutant(
        "anybody's answer is DynamoDB's",
        "dynamodb_client",
        'if not answer["ResponseMetadata"].get("RequestId"):',
        "if False:",
        "test_each_call_is_one_request_whatever_becomes_of_it[NONSENSE_AFTER]",
    ),
    Mutant(
        "the client sends again by itself",
        "aws_session",
        '"total_max_attempts": 1',
        '"total_max_attempts": 2',
        "test_each_call_is_one_request_whatever_becomes_of_it[DROPPED_BEFORE]",
    ),
)

REDIS_COUNTERS = (
    Mutant(
        "the floor is ignored",
        "redis",
        "math.max(last, tonumber(ARGV[1]))",
        "last",
        "test_a_counter_is_lifted_above_the_floor",
    ),
    Mutant(
        "the floor is where it is",
        "redis",
        "math.max(last, tonumber(ARGV[1]))",
        "tonumber(ARGV[1])",
        "test_a_floor_below_it_is_no_step_back",
    ),
    Mutant(
        "one number for however many",
        "redis",
        " + tonumber(ARGV[2])",
        " + 1",
        "test_numbers_are_taken_several_at_a_time",
    ),
    Mutant(
        "beyond what doubles can tell apart",
        "redis",
        "if last > {LARGEST} then",
        "if false then",
        "test_a_counter_at_its_end_is_refused",
    ),
    Mutant(
        "read, then written",
        "redis",
        'return Advanced(*self._sender()(key, "EVAL", _ADVANCE, 1, key, floor, count))',
        """last = max(int(self._sender()(key, "GET", key) or 0), floor) + count
            self._sender()(key, "SET", key, last)
            return Advanced(last)""",
        "test_each_call_is_one_command",
    ),
)

DYNAMODB_COUNTERS = (
    Mutant(
        "lifted whatever is there",
        "dynamodb",
        '"attribute_not_exists(#last) OR #last < :floor"',
        '"attribute_not_exists(#last) OR #last < :floor OR #last >= :floor"',
        "test_another_registry_on_it_goes_on_where_it_is",
    ),
    Mutant(
        "added to, whatever the floor",
        "dynamodb",
        '"#last BETWEEN :floor AND :highest"',
        '"#last <= :highest OR :floor > :highest"',
        "test_numbers_of_a_table_that_was_made_anew_are_above_the_floor",
    ),
    Mutant(
        "the floor is ignored",
        "dynamodb",
        "self._seen.get(name, -1) >= floor",
        "self._seen.get(name, -1) >= 0",
        "test_a_counter_is_lifted_above_the_floor",
    ),
    Mutant(
        "what others did is never learnt",
        "dynamodb",
        "last = self._seen[name] = -1 if item is None else last_of(item)",
        "last = -1 if item is None else last_of(item)",
        "test_another_registry_on_it_goes_on_where_it_is",
    ),
    Mutant(
        "beyond what others can calculate with",
        "dynamodb",
        '":highest": LARGEST - count}',
        '":highest": 10**20}',
        "test_a_counter_at_its_end_is_refused",
    ),
    Mutant(
        "a counter among the claims",
        "dynamodb_client",
        'COUNTERS = {"S": "#counter"}',
        'COUNTERS = {"S": "counter"}',
        "test_no_counter_is_a_claim",
    ),
)
