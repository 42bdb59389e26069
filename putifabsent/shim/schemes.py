"""The schemes of addresses: which of them mean one kind of store."""

from __future__ import annotations

SCHEMES = {
    "s3": ("s3", "s3a"),
    "gcs": ("gs", "gcs"),
    "azure": ("az", "abfs", "abfss"),
    "local": ("file", "local"),
    "memory": ("memory",),
}
"""Of each kind of store; by the first one it is called."""

KINDS = {scheme: kind for kind, schemes in SCHEMES.items() for scheme in schemes}
GUARDED = {scheme: f"pia{SCHEMES[kind][0]}" for scheme, kind in KINDS.items()}
"""Under which a scheme's store is guarded."""
