"""How a store's settings of Hadoop's become options of its filesystem here, or are refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence


class Settings(NamedTuple):
    """Hadoop's settings of one store, without what their keys begin with.

    ``password`` looks up what a credential provider may hold; ``base`` counts where these say nothing: for a
    bucket's own, those of all buckets.
    """

    plain: Mapping[str, str]
    password: Callable[[str], str | None]
    base: Settings | None = None

    def first(self, *keys: str) -> str | None:
        """Return the first of these that says anything; any of a bucket's own comes before all others."""
        found = next((value for key in keys if (value := self.plain.get(key, "").strip())), None)
        return self.base.first(*keys) if found is None and self.base else found

    def secret(self, *keys: str) -> str | None:
        """Return the first of these that is there, wherever it is kept."""
        found = next((value for key in keys if (value := (self.password(key) or "").strip())), None)
        return self.base.secret(*keys) if found is None and self.base else found

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a setting that is true or false."""
        value = self.first(key)
        return default if value is None else value.lower() == "true"

    def below(self, family: str) -> dict[str, str]:
        """Return the settings whose keys begin so, by the rest of their keys."""
        found = self.base.below(family) if self.base else {}
        own = {key[len(family) :]: value for key, value in self.plain.items() if key.startswith(family)}
        return {**found, **own}


class Refusal(NamedTuple):
    """Why a setting is refused, as a sentence goes on from its name, and what to do instead.

    Values that are ``harmless`` for guarded names are not, nor any where an option of ``unless`` stands in.
    """

    why: str
    harmless: Sequence[str] = ()
    unless: Sequence[str] = ()


class Store(NamedTuple):
    """What is known of a scheme: its guarded filesystem here, and the class that Hadoop has for it."""

    protocol: str
    wrapped: str
    prefixes: Sequence[str]  # what its settings' keys begin with in Hadoop; an earlier one comes first
    of_settings: Callable[[Settings, Mapping[str, Any]], dict[str, Any]]
    """From those settings, and the options that are given here, to the filesystem's options."""
    mapped: Collection[str]  # settings that become options; one that ends with a dot is a family
    refused: Mapping[str, Refusal]  # settings that a guarded name can't follow
    own: str = "bucket.{name}.{key}"  # how a bucket or an account spells its own
    authority: str = "{name}"  # how it is spelled in an address that is all of it
    narrower: str | None = None  # how names begin that are of a part of an account: what those say is refused
    twins: tuple[str, ...] = ()  # other schemes that lead to the same stores

    def options(self, conf: Settings, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the filesystem's options, but for those given here; ``ConfigError``: one is refused."""
        for key, (why, harmless, unless) in self.refused.items():
            values = conf.below(key) if key.endswith(".") else {"": conf.first(key) or conf.secret(key) or ""}
            for rest, value in values.items():
                if value and value not in harmless and not any(each in given for each in unless):
                    raise ConfigError(f"{self.prefixes[0]}{key}{rest} {why}")
        return self.of_settings(conf, given)

    def mountings(
        self,
        scheme: str,
        hadoop: Mapping[str, str],
        password: Callable[[str], str | None],
        given: Mapping[str, Any],
    ) -> list[dict[str, Any]]:
        """Return the service's mounts of a scheme: all, and each bucket or account with settings of its own.

        Those of Hadoop's settings are empty that a credential provider holds; ``password`` looks them up. The
        options that are given come before Hadoop's own. ``ConfigError``: a guarded name can't follow a
        setting.
        """

        def settings(head: str, tail: str, base: Settings | None) -> Settings:
            plain = {
                key[len(head) : len(key) - len(tail)]: value
                for key, value in hadoop.items()
                if key.startswith(head) and key.endswith(tail)
            }
            # A bucket's secrets S3A looks up by the whole key first.
            heads = (f"{head}{self.prefixes[0]}", head) if base else (head,)

            def secret(key: str) -> str | None:
                found = (password(f"{each}{key}{tail}") for each in heads)
                return next(filter(None, found), None)

            return Settings(plain, secret, base)

        base: Settings | None = None
        for prefix in reversed(self.prefixes[1:]):
            base = settings(prefix, "", base)
        everyones = settings(self.prefixes[0], "", base)
        found = {f"{scheme}:": everyones}
        for name in self.named(everyones.plain):
            if self.narrower and re.match(self.narrower, name):
                raise ConfigError(
                    f"{self.prefixes[0]}*.{name} is for one container alone: say it for its account, or "
                    "give mount() the credentials"
                )
            head, _, tail = f"{self.prefixes[0]}{self.own}".partition("{key}")
            prefix = f"{scheme}://{self.authority.format(name=name)}/"
            found[prefix] = settings(head.format(name=name), tail.format(name=name), everyones)
        mountings = []
        for prefix, own in found.items():
            try:
                options = self.options(own, given)
            except ConfigError as error:
                raise ConfigError(f"{prefix} can't be guarded: {error}") from error
            mountings.append({"prefix": prefix, "options": _merged(options, given)})
        return mountings

    def named(self, keys: Iterable[str]) -> list[str]:
        """Return the buckets or accounts with settings of their own, sorted; a name may have dots."""
        known = "|".join(re.escape(key) + ".+" * key.endswith(".") for key in (*self.mapped, *self.refused))
        setting = f"(?:{re.escape(self.prefixes[0])})?(?:{known})"
        spelled = self.own.replace(".", r"\.").format(name="(?P<name>.+?)", key=setting)
        found = (re.fullmatch(spelled, key) for key in keys)
        return sorted({each["name"] for each in found if each})


def _merged(found: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of which those that are given come first, one by one in dictionaries, too."""
    both = {
        key: _merged(value, given[key])
        for key, value in found.items()
        if isinstance(value, dict) and isinstance(given.get(key), dict)
    }
    return {**found, **given, **both}
