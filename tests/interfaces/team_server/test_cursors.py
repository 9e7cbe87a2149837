"""Cursors of lists: bound to their question, refused where tampered with."""

from __future__ import annotations


def test_a_cursor_of_another_list_is_refused(ada):
    for title in "abc":
        ada.post("/threads", {"title": title})
    other = ada.ask("GET", "/threads", params={"limit": 1, "status": "open"}).json()["pagination"][
        "cursor"
    ]
    for cursor in ("x", "💥", "a" * 600, "eDp5", "dGhyZWFkXzE6MA==", other):
        ada.refused(400, "VALIDATION_ERROR", ada.ask("GET", "/threads", params={"cursor": cursor}))
    assert len(ada.get("/threads", cursor="")) == 3
