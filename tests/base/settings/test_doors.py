"""A new variable or setting: one row, from which forwarding, reading and display follow."""

import subprocess
import sys

from pydantic import Field, create_model

from cortex.base.runtime.home import own_variables
from cortex.base.settings.groups import CamelGroup, Groups, Whole
from cortex.base.settings.registry import _read_keys


class Toys(CamelGroup):
    box_size: Whole = Field(3, ge=1, description="Toys in a box.")


# In a process of its own, because the registry is built from the rows at import.
VARIABLE = """
from cortex.base.runtime import home
home.SETTING_VARIABLES["TOY_FILES"] = "workspace.maxFiles"
from cortex.base.settings import load
variables = {"TOY_FILES": "7", "PATH": "/bin"}
assert home.own_variables(variables) == {"TOY_FILES": "7"}
settings = load(None, environment=variables)
assert settings.workspace.max_files == 7
assert "TOY_FILES" in settings.origin("workspace.maxFiles")
"""


def run(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_new_environment_variable_needs_only_its_row() -> None:
    run(VARIABLE)


def test_new_setting_needs_only_its_field() -> None:
    toys = Toys.model_construct()
    extended = create_model("Extended", __base__=Groups, toys=(Toys, toys))
    (key,) = (key for key in _read_keys(extended, (), ()) if key.name.startswith("toys."))
    assert (key.name, key.default, key.variables) == ("toys.boxSize", 3, ("CORTEX_TOYS_BOX_SIZE",))
    assert key.allowed == "a whole number of at least 1"
    assert key.parse("5") == 5
    assert own_variables(dict.fromkeys(key.variables, "5"))
