"""What the commands about a team's records answer to programs."""

import json
from contextlib import contextmanager

from cortex.base.actors import agent
from cortex.base.record_model import Draft
from cortex.base.settings import environment, load
from cortex.engine.library import Library
from cortex.families.team.writes.drafts import create_draft
from protocol.code_server import check_envelope


def answer(cortex, *arguments):
    """The JSON of a command that goes well."""
    code, out, err = cortex(*arguments, "--json")
    assert code == 0, out + err
    return json.loads(out)


def refusal(cortex, *arguments):
    """The error of a command that is refused, which says the same to people."""
    code, out, _ = cortex(*arguments, "--json")
    assert code in (1, 2), out
    error = check_envelope(json.loads(out))
    again, _, err = cortex(*arguments)
    assert again == code
    assert f"[{error['code']}]" in err
    return error


@contextmanager
def opened():
    """The library that the commands have."""
    library = Library(load(None, environment=environment()))
    try:
        yield library
    finally:
        library.close()


def drafted(*drafts):
    """Ids of drafts that an agent made."""
    with opened() as library:
        actor = agent(library.settings)
        return [create_draft(library, draft, actor=actor)[0].id for draft in drafts]


def comment_draft(target="", body="It happened on Monday, too.", **more):
    return Draft("comment", "", body, target=target, **more)
