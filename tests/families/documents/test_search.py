"""Facts about a document that search adds to its results."""

from __future__ import annotations

import pytest

from cortex.families.documents.search import mime_type


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a.MD", "text/markdown"),
        ("b.pdf", "application/pdf"),
        ("c.py", "text/x-python"),
        ("d", "text/plain"),
        ("e.html", "text/html"),
    ],
)
def test_mime_type_follows_the_file_name(path, kind):
    assert mime_type(path) == kind
