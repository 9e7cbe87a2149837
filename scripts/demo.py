"""`make demo`: each kind of knowledge once on a small project, then your own repository.

Uses the `cortex` command as a person would and knows nothing of the package. The small project is
a copy of `demo/` in a temporary folder with a home of its own, so that nothing of yours changes.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# A title, then commands.
SMALL_PROJECT = (
    ("Code: ask in your own words.", "index", "search 'where is a password checked' --limit 1"),
    (
        "Documents: your notes, manuals, PDFs.",
        "kb add {demo}/handbook",
        "search 'who decides about exceptions' --in kb --limit 1",
    ),
    ("Chunk files: the index for other programs to read.", "chunks export"),
    (
        "Memories: what was learnt, for the next session.",
        "memory add 'Sessions expire in tests' --text 'Freeze the clock: they live 15 minutes.'",
        "memory add 'Card refunds arrive late' --text 'The bank takes five working days.'",
        "search 'why do sessions expire in tests' --in memory --limit 1",
    ),
    (
        "Team: decisions, with the code they are about.",
        "team artifact create 'Sessions live 15 minutes' --type adr --code sessions.py#Session"
        " --body 'Long enough to pay, short enough for a shared computer.'",
        "search 'how long does a session live' --in team --limit 1",
    ),
    ("All of it with one question.", "search 'session' --limit 3"),
)
ANY_REPOSITORY = (
    (
        "Your repository.",
        "index",
        "search 'read the configuration' --in code --limit 2",
        "search TODO --mode exact --limit 2",
    ),
)
NEXT = """
Connect your agent: `{cortex} install` shows what it would change for each client on this machine
and asks. By hand: docs/getting-started.md.
"""
TIMEOUT_SECONDS = 1800


def main() -> int:
    """Run the demonstration; the argument is a repository of the user's."""
    given = sys.argv[1] if len(sys.argv) > 1 else ""
    repository = Path(given).expanduser().resolve() if given else None
    if repository is not None and not repository.is_dir():
        sys.stderr.write(f"{repository} is no folder; try make demo REPO=path/to/a/repository\n")
        return 2
    cortex = str(Path(sysconfig.get_path("scripts"), "cortex"))
    with tempfile.TemporaryDirectory(prefix="cortex-demo-", ignore_cleanup_errors=True) as name:
        demo = Path(shutil.copytree(ROOT / "demo", Path(name, "demo")))
        own = {"CORTEX_HOME": str(Path(name, "home")), "CORTEX_NO_SIDECAR": "1"}
        code = run(cortex, SMALL_PROJECT, demo / "shop", own, demo=str(demo))
    if not code and repository is not None:
        code = run(cortex, ANY_REPOSITORY, repository, {})
    if not code:
        say(NEXT.format(cortex=cortex))
    return code


def run(
    cortex: str,
    parts: tuple[tuple[str, ...], ...],
    folder: Path,
    variables: dict[str, str],
    **names: str,
) -> int:
    """Show and run the commands of each part; stop at the first that fails."""
    for title, *commands in parts:
        say(f"\n── {title}\n")
        for command in commands:
            words = [word.format(**names) for word in shlex.split(command)]
            say(f"\n$ cortex {command.format(demo='..')}\n")
            done = subprocess.run(
                [cortex, *words],
                cwd=folder,
                env=os.environ | variables,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
            if done.returncode:
                return done.returncode
    return 0


def say(text: str) -> None:
    """Print at once, before the output of the next command."""
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
