"""Matching a URI to a resource."""

from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from cortex.interfaces.transports.mcp.uri_templates import find_resource
from protocol.family import make_family

FAMILIES = [make_family()]


@given(
    st.text(min_size=1, max_size=60).filter(
        lambda path: path.encode("utf-8", "replace").decode() == path
    )
)
def test_any_path_comes_back_as_it_was_encoded(path):
    for uri in (f"box://file/{quote(path, safe='')}/text", f"box://file/{quote(path)}/text"):
        assert find_resource(FAMILIES, uri)[2] == {"path": path}


@given(st.text(max_size=80))
def test_a_uri_that_names_nothing_finds_nothing(uri):
    assert find_resource(FAMILIES, "other://" + uri) is None
