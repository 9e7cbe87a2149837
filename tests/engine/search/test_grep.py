import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.base.errors import Cancelled, CortexError
from cortex.base.types import Cancel, Hit, Mode, Query, ScannedFile, Source
from cortex.engine.search.grep import MAX_HITS, Matches, search_exact

TEXT = "alpha\nbeta needle\ngamma\n" + "filler\n" * 20 + "needle again\n"


def search(root: Path, query: str, **more) -> list[Hit]:
    return look(root, query, **more).hits


def look(
    root: Path,
    query: str,
    *,
    regex: bool = False,
    languages: tuple[str, ...] = (),
    seconds: float = 10,
    cancel: Cancel | None = None,
) -> Matches:
    files = [
        ScannedFile(str(p.relative_to(root)), p.stat().st_size, 0)
        for p in sorted(root.rglob("*"))
        if p.is_file()
    ]
    return search_exact(
        Query(query, mode=Mode.EXACT, regex=regex, languages=languages),
        Source(1, "files", "x", str(root)),
        files,
        deadline=time.monotonic() + seconds,
        max_file_size=10_000_000,
        cancel=cancel or Cancel(),
    )


def test_every_place_is_found_with_its_lines(tmp_path: Path):
    (tmp_path / "a.txt").write_text(TEXT)
    first, second = search(tmp_path, "needle")
    assert (first.start_line, first.end_line) == (1, 4)
    assert "beta needle" in first.text
    assert second.text.endswith("needle again\n") or "needle again" in second.text


def test_near_matches_are_one_hit_that_counts_them(tmp_path: Path):
    (tmp_path / "a.txt").write_text("x\nx\nx\n")
    (hit,) = search(tmp_path, "x")
    assert hit.score == 3


def test_ordinary_code_comes_before_tests(tmp_path: Path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("needle\n" * 5)
    (tmp_path / "z.py").write_text("needle\n")
    assert [hit.path for hit in search(tmp_path, "needle")] == ["z.py", "tests/test_a.py"]


def test_a_search_that_stops_says_so_and_ordinary_code_was_read_first(tmp_path: Path):
    (tmp_path / "a_tests").mkdir()
    apart = "needle\n" + "filler\n" * 6
    for number in range(5):
        (tmp_path / "a_tests" / f"test_{number}.py").write_text(apart * (MAX_HITS // 4))
    (tmp_path / "z.py").write_text("needle\n")
    found = look(tmp_path, "needle")
    assert found.stopped
    assert found.hits[0].path == "z.py"
    assert look(tmp_path, r"filler\n", regex=True).stopped
    assert not look(tmp_path, "absent").stopped


def test_file_with_too_many_matches_is_reported(tmp_path: Path):
    (tmp_path / "a.txt").write_text("x" * (MAX_HITS - 1))
    assert not look(tmp_path, "x").stopped
    (tmp_path / "a.txt").write_text("x" * (MAX_HITS + 1))
    assert look(tmp_path, "x").stopped


def test_language_filter_reads_content_where_the_name_is_ambiguous(tmp_path: Path):
    (tmp_path / "run").write_text("#!/usr/bin/env python3\nneedle = 1\n")
    (tmp_path / "plain.h").write_text("// " + "long " * 300 + "\nint needle;\n")
    (tmp_path / "late.h").write_text("// " + "long " * 300 + "\nclass Needle { int needle; };\n")
    found = look(tmp_path, "needle", languages=("python",))
    assert [(hit.path, hit.language) for hit in found.hits] == [("run", "python")]
    assert found.searched == 1
    assert [hit.path for hit in search(tmp_path, "needle", languages=("cpp",))] == ["late.h"]
    assert [hit.path for hit in search(tmp_path, "needle", languages=("c",))] == ["plain.h"]


def test_expression_can_span_lines(tmp_path: Path):
    (tmp_path / "a.txt").write_text(TEXT)
    (hit,) = search(tmp_path, r"alpha\nbeta", regex=True)
    assert hit.start_line == 1


def test_exponential_expression_is_stopped(tmp_path: Path):
    (tmp_path / "a.txt").write_text("a" * 60 + "!\n")
    started = time.monotonic()
    with pytest.raises(CortexError) as caught:
        search(tmp_path, r"(a+)+$|(a|aa)+$b", regex=True, seconds=0.5)
    assert caught.value.code in ("REGEX_TIMEOUT", "SEARCH_TIMEOUT")
    assert time.monotonic() - started < 5


def test_a_broken_expression_is_refused_with_its_reason(tmp_path: Path):
    with pytest.raises(CortexError) as caught:
        search(tmp_path, "(unclosed", regex=True)
    assert caught.value.code == "REGEX_INVALID"


def test_a_cancelled_search_stops(tmp_path: Path):
    (tmp_path / "a.txt").write_text(TEXT)
    cancel = Cancel()
    cancel.cancel()
    with pytest.raises(Cancelled):
        search(tmp_path, "needle", cancel=cancel)


@given(
    st.text(alphabet="ab\nc", min_size=1, max_size=60),
    st.text(alphabet="abc", min_size=1, max_size=3),
)
def test_every_line_with_the_text_is_in_a_hit(text: str, wanted: str):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "f.txt").write_text(text)
        hits = search(Path(folder), wanted)
    lines = [number for number, line in enumerate(text.split("\n"), 1) if wanted in line]
    for line in lines:
        assert any(hit.start_line <= line <= hit.end_line for hit in hits)


@pytest.mark.parametrize(
    "expression", ["(?:(?:(?:a{9999}){9999}){9999})?zz", "(?a)(?u)x", "(?R)", "a{e<=2}"]
)
def test_oversized_expression_is_refused_before_it_is_compiled(tmp_path: Path, expression: str):
    with pytest.raises(CortexError) as caught:
        search(tmp_path, expression, regex=True)
    assert caught.value.code == "REGEX_INVALID"


def test_exponential_expression_in_one_file_is_stopped_before_the_search(
    tmp_path: Path, monkeypatch
):
    monkeypatch.setattr("cortex.engine.search.grep.FILE_SECONDS", 0.2)
    (tmp_path / "a.txt").write_text("a" * 100_000)
    started = time.monotonic()
    with pytest.raises(CortexError) as caught:
        search(tmp_path, r"(?:(?:(a*)*)*)*(?:b|c)", regex=True, seconds=60)
    assert caught.value.code == "REGEX_TIMEOUT"
    assert time.monotonic() - started < 20


def test_many_slow_matches_end_at_the_time_limit_of_the_search(tmp_path: Path):
    (tmp_path / "a.txt").write_text(("x" * 400 + "q ") * 2_000)
    started = time.monotonic()
    with pytest.raises(CortexError) as caught:
        search(tmp_path, r"(?:x+)+x+y|q", regex=True, seconds=0.3)
    assert caught.value.code in ("REGEX_TIMEOUT", "SEARCH_TIMEOUT")
    assert time.monotonic() - started < 5
