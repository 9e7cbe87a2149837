"""Which language a file is in."""

import pytest

from cortex.chunkers import VERSION, is_code, language_of


@pytest.mark.parametrize(
    ("path", "head", "language"),
    [
        ("a/b.py", "", "python"),
        ("a.tsx", "", "tsx"),
        ("a.d.ts", "", "typescript"),
        ("x.JSX", "", "javascript"),
        ("Program.cs", "", "csharp"),
        ("a.cc", "", "cpp"),
        ("Dockerfile", "", "dockerfile"),
        ("build/Dockerfile.dev", "", "dockerfile"),
        ("Makefile", "", "makefile"),
        ("Gemfile", "", "ruby"),
        ("go.mod", "", "go-module"),
        ("README", "", "markdown"),
        ("run", "#!/usr/bin/env python3\n", "python"),
        ("run", "#!/bin/bash\n", "bash"),
        ("run", "#!/usr/bin/env -S node --x\n", "javascript"),
        ("run", "hello", "text"),
        ("archive.unknown", "", "text"),
        ("x.h", "", "cpp"),
        ("x.h", "#include <a.h>\nint f(void);\n", "c"),
        ("x.h", "namespace a {}\n", "cpp"),
        ("x.h", "@interface A\n", "objc"),
        ("dir.py/file", "", "text"),
    ],
)
def test_a_language_is_told_by_name_then_by_the_first_line(path, head, language):
    assert language_of(path, head) == language


def test_prose_and_settings_are_no_code():
    assert is_code("python")
    assert is_code("dockerfile")
    assert not any(is_code(language) for language in ("markdown", "text", "json", "yaml", "toml"))


def test_the_version_is_a_number():
    assert VERSION >= 1
