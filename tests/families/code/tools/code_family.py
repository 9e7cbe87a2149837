"""The code family on one folder, opened in the process of the tests."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cortex.base.settings import Workspace, load
from cortex.engine.engine import Engine
from cortex.families.code.tools import open_family
from cortex.interfaces.assembly.pool import engine_pool
from cortex.toolkit.tool import Answer, Call, bind, find_tool, perform
from protocol.code_server import check_envelope


class CodeFamily:
    """The family on one folder, called as a surface calls it."""

    def __init__(
        self,
        root: Path,
        *,
        keep: bool = False,
        environment: dict[str, str] | None = None,
        **flags: object,
    ) -> None:
        names = {name.replace("__", "."): value for name, value in flags.items()}
        self.root = root
        self.settings = load(
            root, environment=environment or {"CORTEX_HOME": str(root.parent / "home")}, flags=names
        )
        self.family = open_family([Workspace(root, self.settings)], engine_pool(keep=keep))

    def call(self, name: str, call: Call | None = None, /, **arguments: object) -> Answer:
        family, tool = find_tool([self.family], name)
        return perform(family, tool, bind(tool, arguments), call or Call())

    def tool(self, name: str, **arguments: object) -> dict[str, Any]:
        answer = self.call(name, **arguments)
        assert not answer.failed, answer.text
        return json.loads(answer.text)

    def failure(self, name: str, **arguments: object) -> dict[str, Any]:
        answer = self.call(name, **arguments)
        assert answer.failed, answer.text
        return check_envelope(json.loads(answer.text))

    def status(self, part: str = "status", **variables: str) -> dict[str, Any]:
        names = (part, f"workspace-{part}")
        (resource,) = (resource for resource in self.family.resources if resource.name in names)
        return json.loads(resource.read(self.family.context, variables, Call()))

    @property
    def engine(self) -> Engine:
        # It stays open as long as the family
        with self.family.context.open() as engines:
            return engines[0][1]


@contextmanager
def opened(root: Path, **options: Any) -> Iterator[CodeFamily]:
    family = CodeFamily(root, **options)
    try:
        yield family
    finally:
        family.family.close()
