"""The tools, resources and prompts that the conformance suite asks a server for, as far as a family
can offer them: texts.

Run as a program it serves them over HTTP: what `cortex mcp code` can't show for want of the suite's
own tools, its surface can.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping

from cortex.base.errors import InputError
from cortex.interfaces.transports.http.gateway import Site
from cortex.interfaces.transports.http.mcp_site import serve_http
from cortex.toolkit.tool import (
    Answer,
    Arguments,
    Call,
    Family,
    Prompt,
    PromptArgument,
    Resource,
    Tool,
)


class Nothing(Arguments):
    pass


def test_simple_text(context: None, arguments: Nothing, call: Call) -> Answer:
    return Answer("This is a simple text response for testing.")


def test_error_handling(context: None, arguments: Nothing, call: Call) -> Answer:
    raise InputError("ARGUMENT_INVALID", "This tool intentionally returns an error for testing")


def test_tool_with_progress(context: None, arguments: Nothing, call: Call) -> Answer:
    for step in (0, 50, 100):
        call.progress(step, 100, f"{step} of 100")
        threading.Event().wait(0.12)  # more than the time between two notifications
    return Answer("done")


def read_template(context: None, variables: Mapping[str, str], call: Call) -> str:
    return json.dumps(
        {"id": variables["id"], "templateTest": True, "data": f"Data for ID: {variables['id']}"}
    )


def make_family() -> Family:
    runs = (test_simple_text, test_error_handling, test_tool_with_progress)
    text = "This is the content of the static text resource."
    blanks = (
        PromptArgument("arg1", "First", required=True),
        PromptArgument("arg2", "Second", required=True),
    )
    return Family(
        name="fixtures",
        instructions="What the conformance suite asks for.",
        context=None,
        tools=tuple(
            Tool(
                "fixtures",
                run.__name__,
                run.__name__,
                f"Use it in {run.__name__}.",
                Nothing,
                run,
                writes=False,
                idempotent=True,
            )
            for run in runs
        ),
        resources=(
            Resource(
                "test://static-text", "text", "Text", "A text.", lambda *_: text, "text/plain"
            ),
            Resource(
                "test://template/{id}/data", "template", "Template", "A template.", read_template
            ),
        ),
        prompts=(
            Prompt(
                "test_simple_prompt",
                "Simple",
                "No blanks",
                (),
                lambda values: "This is a simple prompt for testing.",
            ),
            Prompt(
                "test_prompt_with_arguments",
                "Arguments",
                "Two blanks",
                blanks,
                lambda values: (
                    f"Prompt with arguments: arg1='{values['arg1']}', arg2='{values['arg2']}'"
                ),
            ),
        ),
        close=lambda: None,
    )


if __name__ == "__main__":
    ready = lambda port: print(f"ready {port}", file=sys.stderr, flush=True)  # noqa: E731
    sys.exit(serve_http([make_family()], Site("127.0.0.1", 0), ready=ready))
