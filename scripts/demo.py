"""`make demo`: index a repository, ask it three questions, show how an agent is connected.

Uses the `cortex` command as a person would; knows nothing of the package.
"""

import json
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ABOUT_CORTEX = ("who takes the lease of a store", "split_identifier", "how is a file that git ignores left out")
ABOUT_ANYTHING = ("where does the program start", "how is the configuration read", "how are errors reported")
MINUTES = 30


def main() -> int:
    """Run the demonstration on the repository given, or on this one."""
    given = sys.argv[1] if len(sys.argv) > 1 else ""
    repository = Path(given).expanduser().resolve() if given else ROOT
    if not repository.is_dir():
        sys.stderr.write(f"{repository} is no folder; try make demo REPO=path/to/a/repository\n")
        return 2
    cortex = str(Path(sysconfig.get_path("scripts"), "cortex"))
    commands = [[cortex, "index", str(repository)]]
    questions = ABOUT_CORTEX if repository == ROOT else ABOUT_ANYTHING
    commands += [[cortex, "search", question, "--path", str(repository), "--limit", "3"] for question in questions]
    for command in commands:
        say(f"\n$ {shlex.join(['cortex', *command[1:]])}\n")
        code = subprocess.run(command, timeout=MINUTES * 60, check=False).returncode
        if code:
            return code
    say(connecting(cortex))
    return 0


def connecting(cortex: str) -> str:
    """How each agent is told of the server: one command where there is one, else the file and what goes into it."""
    entry = {"command": cortex, "args": ["mcp"]}
    return f"""
Connect your agent; run or write it in the project that it works on:

Claude Code   claude mcp add cortex -- {shlex.quote(cortex)} mcp
Codex         codex mcp add cortex -- {shlex.quote(cortex)} mcp
VS Code       .vscode/mcp.json    {json.dumps({"servers": {"cortex": {"type": "stdio", **entry}}})}
Cursor        .cursor/mcp.json    {json.dumps({"mcpServers": {"cortex": entry}})}
"""


def say(text: str) -> None:
    """Print at once: what the commands print must come after it."""
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
