"""The arguments that several verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["AsJson", "Endpoint", "Options", "Url"]

Url = Annotated[
    str,
    typer.Argument(
        metavar="URL", help="s3://, gs://, az://, memory:// (also pias3:// and the like), or a local path."
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON value on stdout, and all else on stderr.")
]
Endpoint = Annotated[
    str | None,
    typer.Option("--endpoint-url", metavar="ADDRESS", help="Where an S3 or GCS server is."),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="KEY=VALUE",
        help="An option of the filesystem, as fsspec takes it; the value may be JSON "
        """(-o client_kwargs='{"region_name": "eu-west-1"}'). Repeatable.""",
    ),
]
