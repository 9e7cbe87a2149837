"""Texts inside a rendered pack."""

from cortex.families.team.commands.pack_render import inner


def test_embedded_text_has_lower_headings_and_closed_fences():
    assert (
        inner("# One\n~~~\n# code\n```\n~~~\n## Two")
        == "#### One\n~~~\n# code\n```\n~~~\n##### Two"
    )
    assert inner("<!-- open") == "&lt;!-- open"
    assert inner("````\n```\n") == "````\n```\n\n````"
