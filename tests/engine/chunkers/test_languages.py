"""The language of a file."""

import pytest

from cortex.engine.chunkers import VERSION, language_of


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
def test_language_is_recognised_by_file_name_then_by_first_line(path, head, language):
    assert language_of(path, head) == language


def test_language_table_version_is_a_number():
    assert VERSION >= 1
