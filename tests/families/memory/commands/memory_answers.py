"""JSON answers of `cortex memory`."""

import json


def answer(cortex, *arguments):
    """The JSON of a command that goes well."""
    code, out, err = cortex("memory", *arguments, "--json")
    assert code == 0, out + err
    return json.loads(out)


def titles(cortex, *arguments):
    """The titles in a list, in the order of the alphabet."""
    return sorted(memory["title"] for memory in answer(cortex, "list", *arguments)["memories"])
