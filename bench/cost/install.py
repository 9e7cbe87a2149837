"""Size of the default install, and the time from `pip install` to the first answer."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

from bench.common.figures import Section, Setup
from bench.common.process_cost import clean_environment

ROOT = Path(__file__).resolve().parents[2]
DISK_MB, FIRST_ANSWER_SECONDS = 180.0, 60.0
NOT_OURS = ("pip", "setuptools", "wheel")
LARGEST_SHOWN = 10
STEP_SECONDS = 900


def measure(setup: Setup) -> Section:
    """Install into fresh environments from wheels that are already here, then ask."""
    section = Section("install", "Install")
    wheels = setup.work / "wheels"
    _pip(
        Path(sys.executable),
        "wheel",
        "-c",
        str(ROOT / "constraints.txt"),
        "-w",
        str(wheels),
        str(ROOT),
    )
    installs, answers = [], []
    sizes: dict[str, int] = {}
    for _ in range(1 if setup.quick else setup.repeat):
        folder = setup.work / "fresh"
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        start = time.perf_counter()
        _pip(python, "install", "--no-index", "--find-links", str(wheels), "cortex-context")
        installs.append(time.perf_counter() - start)
        answers.append(installs[-1] + _first_answer(setup, python))
        sizes = package_sizes(python)
    total = sum(sizes.values())
    largest = sorted(sizes.items(), key=lambda pair: -pair[1])[:LARGEST_SHOWN]
    section.text = (
        f"{len(sizes)} distributions, without .pyc, pip and setuptools; a wheel's files as its RECORD lists them. The largest: "
        + ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in largest)
        + f". First answer: `pip install` from wheels already here, then `cortex search` on {setup.small:,} files, which indexes first."
    )
    section.add("on disk", "MB", total / 1e6, DISK_MB)
    section.add("pip install", "s", installs)
    section.add("pip install to the first answer", "s", answers, FIRST_ANSWER_SECONDS)
    return section


def package_sizes(python: Path) -> dict[str, int]:
    """Bytes of each distribution's files, by name."""
    script = (
        "import json, importlib.metadata as m\n"
        "print(json.dumps({d.name: sum(f.locate().stat().st_size for f in d.files or () "
        "if f.suffix != '.pyc' and f.locate().is_file()) for d in m.distributions()}))"
    )
    out = subprocess.run(
        [python, "-c", script], check=True, capture_output=True, text=True, timeout=STEP_SECONDS
    ).stdout
    return {name: size for name, size in json.loads(out).items() if _normal(name) not in NOT_OURS}


def _first_answer(setup: Setup, python: Path) -> float:
    folder = setup.repository(setup.small)
    shutil.rmtree(folder / ".cortex", ignore_errors=True)
    start = time.perf_counter()
    done = subprocess.run(
        [
            python,
            "-m",
            "cortex",
            "search",
            "parse command line arguments",
            "--path",
            folder,
            "--json",
        ],
        env=setup.environment(provider="local"),
        check=True,
        capture_output=True,
        text=True,
        timeout=STEP_SECONDS,
    )
    took = time.perf_counter() - start
    if not json.loads(done.stdout)["results"]:
        raise SystemExit("the first answer was empty")
    return took


def _pip(python: Path, *arguments: str) -> None:
    command = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    done = subprocess.run(
        command, env=clean_environment(), capture_output=True, text=True, timeout=STEP_SECONDS
    )
    if done.returncode:
        raise SystemExit(f"pip {arguments[0]} failed:\n{done.stderr[-2000:]}")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
