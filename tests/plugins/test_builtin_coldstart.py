"""Cold start of a home in a new project, from its README, documents and history."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from cortex.plugins import Plugins, Section, Subject

README = """\
[![build](https://example.org/badge.svg)](https://example.org)

# Lamps

Lamps turns lights on and off.
It knows three colours.

```
a fence

that stays out
```

Use it at home.
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "lamps"
    (root / "docs").mkdir(parents=True)
    (root / "README.md").write_text(README, encoding="utf-8")
    (root / "docs" / "colours.md").write_text("Colours\n=======\n\nRed.\n", encoding="utf-8")
    token = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    (root / "CONTRIBUTING.md").write_text(f"## How to help, with {token}\n", encoding="utf-8")
    (tmp_path / "secret.md").write_text("# Not of this project\n", encoding="utf-8")
    with suppress(OSError):  # Windows, without the right to
        (root / "docs" / "linked.md").symlink_to(tmp_path / "secret.md")
    return root


def sections_of(root: Path, **settings: object) -> dict[str, list[str]]:
    with Plugins({"coldstart": settings}) as plugins:
        sections, warnings = plugins.enrich(
            Subject("bootstrap", title="lamps", repo_root=str(root))
        )
    assert warnings == []
    return {section.title: [line.text for line in section.lines] for section in sections}


def test_cold_start_of_an_empty_home_shows_readme_documents_and_history(project: Path) -> None:
    moment = "2026-01-05T10:00:00+00:00"
    who = {
        "GIT_AUTHOR_NAME": "Ada",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "Ada",
    }
    more = {
        **os.environ,
        **who,
        "GIT_COMMITTER_EMAIL": "a@example.org",
        "GIT_AUTHOR_DATE": moment,
        "GIT_COMMITTER_DATE": moment,
    }
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "Let there be light"]):
        subprocess.run(["git", "-C", str(project), *words], check=True, env=more, timeout=30)
    found = sections_of(project)
    assert found["What the README says"] == [
        "Lamps",
        "Lamps turns lights on and off. It knows three colours.",
        "Use it at home.",
    ]
    assert found["Documents"] == [
        "CONTRIBUTING.md: How to help, with [redacted: GitHub token]",
        "docs/colours.md: Colours",
    ]
    commit, people = found["Last commits"]
    assert (
        commit.endswith(" 2026-01-05 Ada: Let there be light")
        and people == "who works here: Ada (1)"
    )


def test_cold_start_without_git_lists_as_many_documents_as_configured(project: Path) -> None:
    assert list(sections_of(project)) == ["What the README says", "Documents"]
    assert sections_of(project, documents=1)["Documents"] == [
        "CONTRIBUTING.md: How to help, with [redacted: GitHub token]"
    ]


def test_cold_start_adds_nothing_outside_a_project_or_for_other_subjects(
    project: Path, tmp_path: Path
) -> None:
    with Plugins({"coldstart": {}}) as plugins:
        for subject in (Subject("bootstrap"), Subject("thread", repo_root=str(project))):
            assert plugins.enrich(subject) == ([], [])
        assert plugins.enrich(Subject("bootstrap", repo_root=str(tmp_path / "nowhere"))) == ([], [])
        assert plugins.preflight("anything").allowed
        partial = [Section("pinned", ())]
        assert len(plugins.enrich(Subject("bootstrap", repo_root=str(project)), partial)[0]) == 2
