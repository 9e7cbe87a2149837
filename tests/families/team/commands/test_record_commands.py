"""The commands of record kinds follow from the rows of their fields."""

import pytest
import typer

from cortex.base.record_spec import KINDS, fields_of
from cortex.interfaces.cli import app

GENERATED = ("subcortex", "thread", "artifact")


def options(*names: str) -> set[str]:
    command = typer.main.get_command(app)
    for name in ("team", *names):
        command = command.commands[name]
    return {spelling for parameter in command.params for spelling in parameter.opts}


@pytest.mark.parametrize("kind", GENERATED)
def test_every_option_of_a_field_is_in_create_or_edit(kind):
    offered = options(kind, "create") | options(kind, "edit")
    for spec in fields_of(KINDS[kind]).values():
        if spec.option and spec.option.name.startswith("--"):
            assert spec.option.name in offered, spec.name
            assert not spec.option.remove or spec.option.remove in options(kind, "edit")


def test_a_field_that_is_set_once_is_not_among_the_changes():
    assert "--supersedes" in options("artifact", "create") - options("artifact", "edit")
    assert "--task" in options("thread", "create") - options("thread", "edit")
    assert "--verification" in options("artifact", "edit") - options("artifact", "create")


def test_only_kinds_with_states_are_listed_by_them():
    assert "--state" in options("artifact", "list")
    assert "--state" not in options("observation", "list")
    assert {"--tag", "--subcortex"} <= options("observation", "list")
    assert "--tag" not in options("subcortex", "list")
