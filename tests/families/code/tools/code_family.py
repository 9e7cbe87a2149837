"""The code family on one folder, opened in the process of the tests."""

import json
from contextlib import contextmanager

from cortex.base.settings import Workspace, load
from cortex.engine.engine import Engine
from cortex.families.code.tools import open_family
from cortex.interfaces.assembly.pool import engine_pool
from cortex.toolkit.tool import Call, bind, find_tool, perform
from protocol.code_server import check_envelope


class InProcess:
    """The family on one folder, called as a surface calls it."""

    def __init__(self, root, *, keep=False, environment=None, **flags):
        names = {name.replace("__", "."): value for name, value in flags.items()}
        self.root = root
        self.settings = load(
            root, environment=environment or {"CORTEX_HOME": str(root.parent / "home")}, flags=names
        )
        self.family = open_family([Workspace(root, self.settings)], engine_pool(keep=keep))

    def call(self, name, call=None, /, **arguments):
        family, tool = find_tool([self.family], name)
        return perform(family, tool, bind(tool, arguments), call or Call())

    def tool(self, name, **arguments):
        answer = self.call(name, **arguments)
        assert not answer.failed, answer.text
        return json.loads(answer.text)

    def failure(self, name, **arguments):
        answer = self.call(name, **arguments)
        assert answer.failed, answer.text
        return check_envelope(json.loads(answer.text))

    def status(self, part="status", **variables):
        names = (part, f"workspace-{part}")
        (resource,) = (resource for resource in self.family.resources if resource.name in names)
        return json.loads(resource.read(self.family.context, variables, Call()))

    @property
    def engine(self) -> Engine:
        # It stays open as long as the family
        with self.family.context.open() as engines:
            return engines[0][1]


@contextmanager
def opened(root, **options):
    family = InProcess(root, **options)
    try:
        yield family
    finally:
        family.family.close()
