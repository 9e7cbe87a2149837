"""The error tree: every code has one class, also when another process told of it."""

import re

import pytest

from cortex.base import errors
from cortex.base.errors import (
    CODES,
    CortexError,
    FileError,
    LimitError,
    StoreError,
    error_of,
    explained,
)
from cortex.toolkit.tool import unforeseen


def test_every_code_belongs_to_the_class_that_the_tree_says():
    drawn = dict.fromkeys(["INTERNAL_ERROR"], CortexError)
    for name, codes in re.findall(r"── (\w+) +[a-z]+ +([A-Z_, ]+)\n", errors.__doc__ or ""):
        drawn |= dict.fromkeys(codes.split(", "), getattr(errors, name))
    assert drawn.keys() == CODES.keys()
    for code, kind in drawn.items():
        told = error_of(code, "what happened", {"path": "a"})
        assert (type(told), told.code, told.message) == (kind, code, "what happened")


def test_a_code_of_a_newer_version_is_an_internal_error():
    told = error_of("NOT_YET_THOUGHT_OF", "what happened")
    assert (told.code, told.message) == ("INTERNAL_ERROR", "what happened")


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
def test_an_exception_that_nobody_foresaw_is_told_as_what_it_is(error, kind, code):
    told = explained(error, "indexing")
    assert (type(told), told.code) == (kind, code)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(28, "No space left on device", "/private/name"), "DISK_FULL"),
        (OSError(5, "Input/output error", "/private/name"), "STORE_IO"),
        (MemoryError(), "MEMORY_SHORT"),
        (KeyError("/private/name"), "INTERNAL_ERROR"),
    ],
)
def test_a_disk_or_memory_that_fails_a_tool_is_no_defect_and_tells_nothing_private(error, code):
    told = unforeseen(error, "search_code")
    assert told.code == code and "private" not in told.message
