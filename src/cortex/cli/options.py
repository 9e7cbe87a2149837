"""Options that several commands take."""

from __future__ import annotations

from typing import Annotated

import typer

ProfileOption = Annotated[
    str | None, typer.Option("--profile", metavar="NAME", help="A home of its own with this name, and its own cortexd.")
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Answer as JSON.")]
