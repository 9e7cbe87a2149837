"""Draw docs/demo.svg, the picture of a terminal in the README, from what `make demo` prints.

    python scripts/terminal_picture.py

Runs the demonstration and keeps the commands named in SHOWN with their output. Ids are shortened and
days left out, so that the picture changes only when the output does. The picture names no
font of the network: it is text in the monospaced font of the reader.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "demo.svg"
COLUMNS = 100
PROMPT = "$ cortex "
# The first words of the commands in the picture.
SHOWN = ("search 'where is a password", "memory add 'Sessions", "search 'session'")
DAY = re.compile(r"\b20\d\d-\d\d-\d\d\b")
# Rich's own mark, and fonts that a browser would fetch.
UNWANTED = re.compile(r"<!-- Generated.*?-->\n?|\s*@font-face \{.*?\}\n", re.DOTALL)


def main() -> int:
    """Write the picture."""
    demo = [sys.executable, str(ROOT / "scripts" / "demo.py")]
    done = subprocess.run(demo, capture_output=True, text=True, encoding="utf-8", check=True)
    PICTURE.write_text(picture_of(shown(done.stdout)), encoding="utf-8")
    return 0


def shown(output: str) -> list[str]:
    """Select the commands of the picture and their output, without ids and days."""
    output = re.sub(r"\b(artifact|mem)_\w+", r"\1_…", output)
    lines: list[str] = []
    kept = False
    for line in output.splitlines():
        if line.startswith(("$ ", "── ", "Connect ")):
            kept = line.removeprefix(PROMPT).startswith(SHOWN)
        if kept and not DAY.search(line):
            lines.append(line)
    return lines


def picture_of(lines: list[str]) -> str:
    """Draw lines of a terminal as SVG."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for line in lines:
        style = "bold" if line.startswith(PROMPT) else ""
        console.print(Text(line, style=style), overflow="ellipsis", no_wrap=True)
    drawn = console.export_svg(title="cortex", theme=MONOKAI, unique_id="cortex")
    return UNWANTED.sub("", drawn).replace("Fira Code", "ui-monospace")


if __name__ == "__main__":
    sys.exit(main())
