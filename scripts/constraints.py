"""Write constraints.txt: the versions that an install with development tools gets today.

Resolves in an environment of its own, so that what happens to be in `.venv` doesn't count. No index
is named and no hash is kept: the file has to work with whatever index or mirror pip is configured
for.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = """\
# Every version that `make install` uses. Renew with `make constraints` after a change of dependencies in pyproject.toml.
# Made on Linux: what only other systems need isn't listed and is resolved there.
"""
MINUTES = 20


def main() -> None:
    """Resolve afresh and replace the file."""
    with tempfile.TemporaryDirectory() as directory:
        venv.create(directory, with_pip=True)
        python = str(Path(directory, "Scripts" if os.name == "nt" else "bin", "python"))
        pip = [python, "-m", "pip", "--disable-pip-version-check"]
        run([*pip, "install", "--quiet", "hatchling", "editables"])
        run([*pip, "install", "--quiet", "--no-build-isolation", "--editable", f"{ROOT}[dev]"])
        frozen = run([*pip, "freeze", "--exclude-editable"])
    lines = sorted((line for line in frozen.splitlines() if "==" in line), key=str.lower)
    (ROOT / "constraints.txt").write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write(f"constraints.txt: {len(lines)} packages\n")


def run(command: list[str]) -> str:
    """Run a command to its end and return what it printed; a failure ends the script."""
    return subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=MINUTES * 60,
    ).stdout


if __name__ == "__main__":
    main()
