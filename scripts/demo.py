"""`make demo`: index a repository, ask it three questions, show how an agent is connected.

Uses the `cortex` command as a person would; knows nothing of the package. This file is in
`.cortexignore`: it would be found by its own questions.
"""

import json
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# A question, a name, and a text as it stands in the files.
ABOUT_CORTEX = (
    ["what happens to a damaged store"],
    ["Lease.take"],
    ["O_NOFOLLOW", "--mode", "exact"],
)
ABOUT_ANYTHING = (
    ["parse the command line arguments"],
    ["read the configuration"],
    ["TODO", "--mode", "exact"],
)
HITS = "2"
MINUTES = 30


def main() -> int:
    """Run the demonstration on the repository given, or on this one."""
    given = sys.argv[1] if len(sys.argv) > 1 else ""
    repository = Path(given).expanduser().resolve() if given else ROOT
    if not repository.is_dir():
        sys.stderr.write(f"{repository} is no folder; try make demo REPO=path/to/a/repository\n")
        return 2
    cortex = str(Path(sysconfig.get_path("scripts"), "cortex"))
    say(f"In {repository}:\n")
    commands = [["index"]]
    commands += [
        ["search", *question, "--limit", HITS]
        for question in (ABOUT_CORTEX if repository == ROOT else ABOUT_ANYTHING)
    ]
    for arguments in commands:
        say(f"\n$ {shlex.join(['cortex', *arguments])}\n")
        where = [str(repository)] if arguments[0] == "index" else ["--path", str(repository)]
        code = subprocess.run(
            [cortex, *arguments, *where], timeout=MINUTES * 60, check=False
        ).returncode
        if code:
            return code
    say(connecting(cortex))
    return 0


def connecting(cortex: str) -> str:
    """How each agent is told of the server: one command where there is one, else the file and what
    goes into it.
    """
    entry = {"command": cortex, "args": ["mcp"]}
    return f"""
Connect your agent; run or write this in the project that it works on:

  Claude Code   claude mcp add cortex -- {shlex.quote(cortex)} mcp
  Codex         codex mcp add cortex -- {shlex.quote(cortex)} mcp
  VS Code       .vscode/mcp.json       {json.dumps({"servers": {"cortex": {"type": "stdio", **entry}}})}
  Cursor        .cursor/mcp.json       {json.dumps({"mcpServers": {"cortex": entry}})}
  Gemini CLI    .gemini/settings.json  {json.dumps({"mcpServers": {"cortex": entry}})}

More in docs/getting-started.md. `cortex doctor` says where the index is; deleting that folder undoes it.
"""


def say(text: str) -> None:
    """Print at once: what the commands print must come after it."""
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
