"""Links to code: the state when it was linked, and the changes since."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cortex.base.errors import InputError
from cortex.base.record_model import CodeLink
from cortex.families.team.code_links import absent, changes_in, cited

pytestmark = pytest.mark.usefixtures("unhurried")
PLAIN = "def add(a, b):\n    return a + b\n\n\nclass Sum:\n    def total(self):\n        return 0\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "sums.py").write_text(PLAIN, encoding="utf-8")
    return folder


def test_link_gets_the_hashes_of_its_file_and_symbol(library, root):
    whole, part = cited(
        library, root, [CodeLink("src/sums.py"), CodeLink("./src/sums.py", symbol="total")]
    )
    assert whole.root == part.root == str(root) and whole.file_hash == part.file_hash != ""
    assert (
        (part.path, part.symbol) == ("src/sums.py", "Sum.total")
        and part.body_hash
        and not whole.body_hash
    )
    assert changes_in(library)(whole) == changes_in(library)(part) == ""


def test_change_is_reported_for_the_symbol_that_it_is_in(library, root):
    links = [CodeLink("src/sums.py", symbol=name) for name in ("add", "Sum.total")] + [
        CodeLink("src/sums.py")
    ]
    add, total, whole = cited(library, root, links)
    (root / "src" / "sums.py").write_text(PLAIN.replace("a + b", "a - b"), encoding="utf-8")
    assert changes_in(library)(add) == "the body of add in src/sums.py changed"
    assert changes_in(library)(total) == "" and changes_in(library)(whole) == "src/sums.py changed"


def test_moved_or_missing_file_is_reported(library, root):
    (link,) = cited(library, root, [CodeLink("src/sums.py")])
    os.replace(root / "src" / "sums.py", root / "sums.py")
    assert changes_in(library)(link) == "src/sums.py moved to sums.py"
    (root / "sums.py").write_text("", encoding="utf-8")
    assert changes_in(library)(link) == "src/sums.py is gone"


def test_unknown_symbol_cites_the_file_and_keeps_the_name(library, root):
    (link,) = cited(library, root, [CodeLink("src/sums.py", symbol="subtract")])
    assert link.symbol == "subtract" and link.file_hash and not link.body_hash
    (root / "src" / "sums.py").write_text("pass\n", encoding="utf-8")
    assert changes_in(library)(link) == "src/sums.py changed"


@pytest.mark.parametrize("path", ["src/gone.py", "src", "other/repository.c"])
def test_link_to_a_missing_file_is_kept_unchanged(library, root, path):
    link = CodeLink(path, repo="elsewhere", symbol="f", line_start=3, commit="abc123")
    assert cited(library, root, [link]) == (link,) == cited(library, None, [link])
    assert changes_in(library)(link) == ""


def test_hashes_of_the_caller_are_ignored(library, root):
    forged = CodeLink("src/gone.py", root="/etc", file_hash="00", body_hash="11")
    assert cited(library, root, [forged]) == (CodeLink("src/gone.py"),)


@pytest.mark.parametrize(
    "path",
    ["../secret", "src/../../x", "/etc/passwd", "C:\\x", "\\\\host\\x", "~/x", "", ".", "a\0b"],
)
def test_path_outside_the_repository_is_refused(library, root, path):
    for place in (root, None):
        with pytest.raises(InputError) as caught:
            cited(library, place, [CodeLink(path)])
        assert (
            caught.value.code == "RECORD_INVALID" and caught.value.context["field"] == "code_links"
        )


def test_symbolic_link_out_of_the_repository_is_refused(library, root, tmp_path):
    (tmp_path / "secret.py").write_text("KEY = 1\n", encoding="utf-8")
    try:
        (root / "inside.py").symlink_to(tmp_path / "secret.py")
    except OSError:
        pytest.skip("no symbolic links here")
    with pytest.raises(InputError, match="no path inside"):
        cited(library, root, [CodeLink("inside.py")])


def test_absolute_path_inside_the_repository_becomes_relative(library, root):
    (link,) = cited(library, root, [CodeLink(str(root / "src" / "sums.py"))])
    assert link.path == "src/sums.py" and link.file_hash


def test_files_are_not_read_without_time_left(library, root):
    (link,) = cited(library, root, [CodeLink("src/sums.py", symbol="add")])
    (root / "src" / "sums.py").write_text(PLAIN + "\nX = 1\n", encoding="utf-8")
    assert changes_in(library, 0.0)(link) == "src/sums.py changed"
    assert changes_in(library)(link) == ""


def test_damaged_link_is_no_error(library, root):
    assert (
        changes_in(library)(CodeLink("src/sums.py", root=str(root), file_hash="no hexadecimal"))
        == ""
    )
    assert (
        changes_in(library)(CodeLink("src/sums.py", root=str(root / "unmounted"), file_hash="00"))
        == ""
    )


def test_all_invalid_paths_are_named_at_once(library, root):
    links = [
        CodeLink("src/sums.py"),
        CodeLink("../x.py"),
        CodeLink("the sums module"),
        CodeLink("", symbol="f"),
    ]
    with pytest.raises(InputError) as refused:
        cited(library, root, links)
    assert (
        refused.value.message
        == "code_links: '../x.py', 'the sums module', '#f' are no paths inside a repository"
    )
    (root / "the sums module").write_text("pass\n", encoding="utf-8")
    assert cited(library, root, [CodeLink("the sums module")])[0].file_hash


def test_link_to_a_file_outside_the_project_has_a_warning(root):
    links = [
        CodeLink("src/sums.py"),
        CodeLink("src/nope.py"),
        CodeLink("src"),
        CodeLink("x" * 5_000),
    ]
    assert absent(root, links[:3]) == "no file src/nope.py in this project: kept as given"
    assert absent(root, links[:1]) == absent(None, links) == "" and absent(root, links[3:])
