"""Where the guarded filesystem's tests write: memory, local disk and S3, each with a way round the guard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Literal, get_args

import fsspec
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "EVERYWHERE",
    "GROUNDS",
    "OTHERWISE",
    "Ground",
    "Kind",
    "Served",
    "by_turns",
    "decided_by",
    "ground_of",
]

Kind = Literal["memory", "local", "s3"]
Served = Literal["gcs", "azure"]
"""By servers that tools/servers/install.sh builds."""

GROUNDS = [*(f"{kind}-native" for kind in get_args(Kind)), "memory-redis"]
"""Each store, and one arbiter that is not the store: the door asks all of them alike."""

EVERYWHERE = [*GROUNDS, "s3-ballot", "local-claims"]
"""Each arbiter, too: for what rests on how one decides, and lists."""

OTHERWISE = pytest.mark.parametrize(
    "ground",
    [*(f"{kind}-{arbiter}" for arbiter in ("ballot", "claims") for kind in get_args(Kind)), "memory-redis"],
    indirect=True,
)
"""Over each store, by each arbiter that is not the store. What decides under a lock is the ballot."""

_PLAIN: Mapping[Kind | Served, str] = {
    "memory": "memory",
    "local": "file",
    "s3": "s3",
    "gcs": "gs",
    "azure": "az",
}


@dataclass(frozen=True)
class Ground:
    """A folder of a store, fresh for each test.

    Attributes
    ----------
    kind
        Which store.
    options
        What both the guarded and the plain filesystem want to hear.
    folder
        Its full name. It holds an empty ``_delta_log/`` where the store has folders.
    arbiter
        Who decides.
    """

    kind: Kind | Served
    options: Mapping[str, Any]
    folder: str
    arbiter: str = "native"

    @property
    def protocol(self) -> str:
        """The guarded scheme."""
        return f"pia{_PLAIN[self.kind]}"

    @property
    def plain(self) -> str:
        """The scheme of what is wrapped."""
        return _PLAIN[self.kind]

    def mount(self, **options: Any) -> Any:
        """Return a guarded filesystem."""
        return fsspec.filesystem(self.protocol, **{"arbiter": self.arbiter, **self.options, **options})

    @property
    def fs(self) -> Any:
        """The guarded filesystem with no options of its own."""
        return self.mount()

    @property
    def around(self) -> Any:
        """The plain filesystem: another program's way to the same bytes."""
        return fsspec.filesystem(self.plain, **{"use_listings_cache": False, **self.options})

    def log(self, number: int = 0) -> str:
        """Return a guarded name: an entry of a Delta log."""
        return f"{self.folder}/_delta_log/{number:020d}.json"

    def name(self, last: str) -> str:
        """Return a name in the folder, which nothing guards."""
        return f"{self.folder}/{last}"

    def url(self, name: str) -> str:
        """Return a name's address by the guarded scheme."""
        return f"{self.protocol}://{name}"

    def read(self, name: str) -> bytes:
        """Return what another program reads there."""
        found: bytes = self.around.cat_file(name)
        return found

    def write(self, name: str, data: bytes) -> None:
        """Write as another program, which asks nobody."""
        self.around.pipe_file(name, data)

    def is_there(self, name: str) -> bool:
        """Say whether another program sees the name."""
        return bool(self.around.exists(name))

    def files(self) -> list[str]:
        """List all that another program sees below the folder, from there; temporary files, too.

        Only what another arbiter than the store keeps of names is left aside.
        """
        start = len(self.folder) + 1
        own = [f"/.putifabsent/{kept}/" for kept in ("arbiters", "ballot", "claims")]
        found = self.around.find(self.folder)
        return sorted(name[start:] for name in found if not any(folder in name for folder in own))


def ground_of(request: pytest.FixtureRequest) -> Ground:
    """Return the ground that a fixture's parameter names."""
    kind, arbiter = request.param.split("-")
    found: Ground = request.getfixturevalue(kind)
    return decided_by(arbiter, found, request)


def decided_by(arbiter: str, ground: Ground, request: pytest.FixtureRequest) -> Ground:
    """Return a ground where this arbiter decides: a registry, or a lock, is at the address of its fixture."""
    fixture = {"claims": "registry", "redis": "lock"}.get(arbiter)
    return replace(ground, arbiter=request.getfixturevalue(fixture) if fixture else arbiter)


def by_turns(named: str, cases: Iterable[Any], *elsewhere: str) -> pytest.MarkDecorator:
    """Ask each case in memory, and once more on one of the other grounds, which take turns.

    The shim judges a case alike over all stores, and a store does the same for all cases.
    """
    asked = list(cases)
    grounds = ["memory-native"] * len(asked) + list(islice(cycle(elsewhere or GROUNDS[1:]), len(asked)))
    pairs = zip(grounds, asked * 2, strict=True)
    return pytest.mark.parametrize(("ground", named), pairs, indirect=["ground"], ids=_label)


def _label(value: str | tuple[str, str]) -> str:
    return value if isinstance(value, str) else "-".join(value)
