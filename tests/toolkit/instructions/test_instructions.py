"""Instructions for agents, and templates of prompts."""

from cortex.families import FAMILIES
from cortex.toolkit import instructions


def test_instructions_stay_under_two_kilobytes_and_keep_whole_parts():
    text = instructions.instructions([instructions.text("code"), "ä" * 2000, "last"])
    assert len(text.encode()) < 2048
    assert instructions.text("code") in text
    assert "ä" not in text
    assert text.endswith("last")


def test_instructions_of_all_families_fit_together():
    parts = [instructions.text(name) for name in FAMILIES]
    assert [part for part in parts if part not in instructions.instructions(parts)] == []


def test_template_is_filled_and_sections_without_a_value_are_dropped():
    template = instructions.text("code-search")
    assert instructions.fill(template, {"intent": "parse {{context}}"}) == (
        "Search the codebase for: parse {{context}}\n\nPlease provide relevant code snippets that help with this task."
    )
    full = instructions.fill(template, {"intent": "a", "context": "b", "language": "Go"})
    assert full == (
        "Search the codebase for: a\n\nAdditional context: b\n\nFocus on Go code.\n\n"
        "Please provide relevant code snippets that help with this task."
    )


def test_overview_has_a_fifth_point_only_with_a_focus():
    template = instructions.text("workspace-overview")
    assert "5." not in instructions.fill(template, {})
    assert "5. **tests Analysis**: Detailed analysis of tests\n" in instructions.fill(
        template, {"focus": "tests"}
    )
