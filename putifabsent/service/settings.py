"""A service's settings: which addresses it answers for, its secret, where it listens, its limits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from putifabsent.clocks import Clock, clock
from putifabsent.errors import ConfigError
from putifabsent.service.wire import wrong

if TYPE_CHECKING:
    from typing_extensions import Self


SECRET = "PUTIFABSENT_SERVICE_SECRET"  # noqa: S105 - a variable's name
"""The environment variable that has the secret, where no settings do."""

_SHORTEST_SECRET = 16
_MIB = 2**20
_OBJECT = TypeAdapter(dict[str, Any])


class Mounting(BaseModel):
    """Some addresses, and the filesystem that they are of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # What they begin with, up to a slash: ``s3a://`` for every bucket, ``s3a://lake/warehouse``.
    prefix: str = Field(pattern=r"^[a-z][a-z0-9]*:")
    options: dict[str, Any] = {}  # of the guarded filesystem: the mount's own, and those of the wrapped one


class Ticking(BaseModel):
    """Where instants come from: what :func:`putifabsent.clock` takes, but for leases."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: SecretStr
    options: dict[str, Any] = Field(default={}, repr=False)
    zone: str = "UTC"
    skew: float | None = None
    timeout: float = 30.0

    def clock(self) -> Clock:
        """Return the clock; ``ConfigError`` says what is wrong."""
        return clock(
            self.source.get_secret_value(),
            zone=self.zone,
            skew=self.skew,
            timeout=self.timeout,
            storage_options=self.options,
        )


class Settings(BaseModel):
    """The settings of a service."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # What callers must present, one of them: while it is changed, a new one and an old one. At least 16
    # characters.
    secret: Annotated[
        tuple[SecretStr, ...],
        BeforeValidator(lambda given: given if isinstance(given, (list, tuple)) else (given,)),
        Field(min_length=1),
    ]
    # The addresses that it answers for; all others are refused.
    mounts: Annotated[tuple[Mounting, ...], Field(min_length=1)]
    clock: Ticking | None = None  # where the instants come from that it gives; None: it gives none
    # host, port: where it listens. Port 0: any that is free; it says which.
    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65535)
    # A socket that listens already, inherited from whoever has started this process: in place of both.
    fd: int | None = Field(default=None, ge=0)
    # certificate, key: files, for TLS. Connections after they have changed have the new ones.
    certificate: Path | None = None
    key: Path | None = None
    largest_body: int = Field(default=64 * _MIB, gt=0)  # bytes of the largest creation
    concurrency: int = Field(default=32, gt=0, le=1000)  # how many calls it works on at once; the others wait
    waiting: int = Field(default=1000, ge=0)  # how many may wait; beyond, it is too busy
    body_seconds: float = Field(default=30.0, gt=0)  # how long a caller may take to send its bytes
    # How long it goes on with what it has begun, when it is to end.
    drain_seconds: float = Field(default=30.0, ge=0)

    @model_validator(mode="after")
    def _together(self) -> Self:
        if any(len(each.get_secret_value()) < _SHORTEST_SECRET for each in self.secret):
            raise ValueError(f"the secret must have at least {_SHORTEST_SECRET} characters")
        if (self.certificate is None) is not (self.key is None):
            raise ValueError("TLS takes both, a certificate and its key")
        return self

    @classmethod
    def parse(cls, text: str, secret: str | None = None) -> Settings:
        """Read them from a JSON object with these fields, and the secret if that has none.

        ``ConfigError`` names the wrong field, but not its value, which may be a credential.
        """
        try:
            fields = _OBJECT.validate_json(text)
            return cls.model_validate(fields if secret is None else {"secret": secret, **fields})
        except ValidationError as error:
            raise ConfigError(f"the service's settings: {wrong(error, 'the settings')}") from None
