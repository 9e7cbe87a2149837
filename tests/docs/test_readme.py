"""The question of an agent in the README and its answer are real.

`python tests/docs/test_readme.py` asks again and writes both into the README.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import starlette
from bench.common.mcp_client import Session

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
EXCHANGE = re.compile(r"(?<=<!-- exchange -->\n).*?(?=<!-- end of exchange -->)", re.DOTALL)
QUESTION = "where is a too large upload refused"
# The words of the question that an agent would look for.
WORDS = "large|upload|refused"
FILE = "starlette/middleware/body_limit.py"
# Characters.
TOKEN = 4


def exchange(work: Path) -> str:
    """Ask about the installed Starlette as an agent does; give the README's part."""
    shutil.copytree(
        Path(starlette.__file__).parent,
        work / "project" / "starlette",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    environment = {**os.environ, "CORTEX_HOME": str(work / "home"), "CORTEX_NO_SIDECAR": "1"}
    command = [sys.executable, "-m", "cortex", "mcp", "code", "--workspace", str(work / "project")]
    with Session(command, environment) as session:
        session.wait_until_ready()
        answer = session.text("search_code", query=QUESTION)
    hit, end = json.JSONDecoder().raw_decode(answer, answer.index("[") + 1)
    context = hit["context"]
    lines = [
        f'search_code {{"query": "{QUESTION}"}}',
        "",
        f"{hit['file']}, lines {hit['chunk']['startLine']} to {hit['chunk']['endLine']}, "
        f"relevance {hit['relevance']:.2f}, {context['class']}.{context['function']}",
        "",
        hit["chunk"]["text"],
    ]
    listed, read = grep(work / "project")
    table = f"""\
| | to these lines | all of it |
|---|---:|---:|
| `search_code` | {tokens(end)} tokens | {tokens(len(answer))} tokens |
| `rg -in '{WORDS.replace("|", chr(92) + "|")}'`, {len(listed)} lines; then the file | \
{tokens(len("".join(listed)) + len(read))} tokens | |
"""
    return "```\n{}\n```\n\n{}".format("\n".join(lines), table)


def grep(project: Path) -> tuple[list[str], str]:
    """List the lines that have one of the words, as ripgrep does, and read the right file."""
    found = []
    for path in sorted(project.rglob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if re.search(WORDS, line, re.IGNORECASE):
                found.append(f"{path.relative_to(project).as_posix()}:{number}:{line}\n")
    return found, (project / FILE).read_text(encoding="utf-8")


def tokens(characters: int) -> str:
    return f"{-(-characters // TOKEN):,}"


def test_readme_shows_a_real_question_and_answer(tmp_path: Path) -> None:
    shown = EXCHANGE.search(README.read_text(encoding="utf-8"))
    assert shown
    assert shown[0] == exchange(tmp_path)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        part = exchange(Path(folder).resolve())
    text = README.read_text(encoding="utf-8")
    README.write_text(EXCHANGE.sub(lambda _: part, text), encoding="utf-8")
