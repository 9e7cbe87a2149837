"""The error tree and its table of codes: one row is all that a code needs."""

import json
import re

import pytest

from cortex.base import errors
from cortex.base.errors import (
    CODES,
    CortexError,
    ErrorCode,
    FileError,
    InputError,
    LimitError,
    StoreError,
    error_of,
    explained,
)
from cortex.families.team.tools.render import error_text
from cortex.interfaces.team_server.responses import failure
from cortex.interfaces.transports.http.openapi import describe
from cortex.toolkit.tool import envelope, unforeseen


def test_every_code_rebuilds_in_the_class_of_its_row():
    for code, row in CODES.items():
        rebuilt = error_of(code, "what happened", {"path": "a"})
        assert (type(rebuilt), rebuilt.code, rebuilt.message) == (row.kind, code, "what happened")
        assert rebuilt.suggestions == (row.suggestion,)


def test_tree_in_the_header_names_every_class_of_a_code():
    drawn = {getattr(errors, name) for name in re.findall(r"── (\w+) ", errors.__doc__ or "")}
    assert drawn | {CortexError} == {row.kind for row in CODES.values()}


def test_new_error_code_needs_only_its_row(monkeypatch):
    row = ErrorCode("Feed it.", InputError, status=404, core="NOT_FOUND", tool="TOY_HUNGRY")
    monkeypatch.setitem(CODES, "TOY_HUNGRY", row)
    error = error_of("TOY_HUNGRY", "the toy is hungry")
    assert isinstance(error, InputError)
    assert json.loads(envelope(error))["error"]["suggestions"] == ["Feed it."]
    assert json.loads(error_text(error))["error"]["code"] == "TOY_HUNGRY"
    at_core = failure(error, "req_1")
    assert at_core.status_code == 404
    assert json.loads(at_core.body)["error"]["code"] == "NOT_FOUND"
    document = describe((), "1", dotted=False, guarded=False, document="openapi.json")
    assert "`TOY_HUNGRY`" in str(document["components"]["responses"]["Error404"])


def test_unknown_code_of_a_newer_version_is_an_internal_error():
    rebuilt = error_of("NOT_YET_THOUGHT_OF", "what happened")
    assert (rebuilt.code, rebuilt.message) == ("INTERNAL_ERROR", "what happened")


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (OSError(28, "No space left on device"), FileError, "DISK_FULL"),
        (PermissionError(13, "Permission denied"), FileError, "PERMISSION_DENIED"),
        (OSError(5, "Input/output error"), StoreError, "STORE_IO"),
        (MemoryError(), LimitError, "MEMORY_SHORT"),
        (OSError(71, "Protocol error"), CortexError, "INTERNAL_ERROR"),
        (KeyError("x"), CortexError, "INTERNAL_ERROR"),
        (FileError("PATH_OUTSIDE", "no"), FileError, "PATH_OUTSIDE"),
    ],
)
def test_unforeseen_exception_has_the_code_of_its_cause(error, kind, code):
    shown = explained(error, "indexing")
    assert (type(shown), shown.code) == (kind, code)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(28, "No space left on device", "/private/name"), "DISK_FULL"),
        (OSError(5, "Input/output error", "/private/name"), "STORE_IO"),
        (MemoryError(), "MEMORY_SHORT"),
        (KeyError("/private/name"), "INTERNAL_ERROR"),
    ],
)
def test_failing_disk_or_memory_has_its_code_without_private_names(error, code):
    shown = unforeseen(error, "search_code")
    assert shown.code == code and "private" not in shown.message
