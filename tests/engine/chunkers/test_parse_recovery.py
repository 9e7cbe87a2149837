"""Symbols, names and chunks of a source that its grammar doesn't understand."""

import pytest

from cortex.engine.chunkers import cut
from cortex.engine.chunkers.keyword_scan import scan

BASKET = (
    "template <typename T> class Basket {\n public:\n  void add(T one) { all.push_back(one); }\n private:\n  std::vector<T> all;\n};\n\n"
    "int total(int a) { return a; }\n"
)
CPP = f"#include <vector>\nnamespace shop {{\n{BASKET}}}\n"
BROKEN_CPP = f"#include <vector>\n#ifndef SHOP\nnamespace shop {{\n{BASKET}SHOP_END((\n"
KOTLIN = (
    "package a\n\n@JvmInline\npublic value class Price<out T>\n@Known internal constructor(@Known internal val cents: Any?) {\n"
    '    /** Says "${it}". */\n    public fun whole(): Int = 1\n\n    override fun toString(): String = "Price($cents)"\n}\n\n'
    + "".join(
        f'/** Number {n}. */\npublic interface Shop{n}<E> {{\n    fun open(): String = "at $E"\n}}\n\n'
        for n in range(4)
    )
)
JAVA = (
    "package a.b;\n\nimport java.util.List;\n\npublic class Shop {\n  private final List<String> names;\n\n"
    "  public Shop(List<String> names) {\n    this.names = names;\n  }\n\n  public int size() { return names.size(); }\n}\n"
)


def symbols_of(text: str, language: str) -> list[str]:
    return [f"{symbol.kind} {symbol.qualified}" for symbol in cut(text, "x", language).symbols]


def test_definitions_below_an_error_are_found():
    found = symbols_of(BROKEN_CPP, "cpp")
    assert any(name.endswith("Basket") and name.startswith("class") for name in found)
    assert any(name.endswith("Basket.add") for name in found)
    assert any(name.endswith("total") for name in found)


def test_unknown_declaration_hides_no_other_symbol():
    found = symbols_of(KOTLIN, "kotlin")
    for n in range(4):
        assert f"interface Shop{n}" in found
        assert f"method Shop{n}.open" in found
    assert "class Price" in found
    assert "method Price.whole" in found


def test_a_declaration_found_by_its_keyword_has_its_lines():
    price = next(
        symbol for symbol in cut(KOTLIN, "x.kt", "kotlin").symbols if symbol.name == "Price"
    )
    assert price.end_line == 10


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [("python", JAVA, "method Shop.size"), ("c", CPP, "Basket.add")],
)
def test_a_source_with_a_wrong_extension_is_cut_by_the_grammar_that_fits(language, text, expected):
    result = cut(text, "x", language)
    assert any(f"{symbol.kind} {symbol.qualified}".endswith(expected) for symbol in result.symbols)
    assert result.language == language


def test_a_source_with_few_errors_keeps_its_grammar():
    text = "".join(f"def f{n}(a):\n    return a + {n}\n\n" for n in range(20)) + "x = = 3\n"
    assert symbols_of(text, "python")[:20] == [f"function f{n}" for n in range(20)]


def test_unparsable_source_still_has_symbols_found_by_keyword():
    text = "%% ((( ??? }\n" * 20 + "interface Lost {\n  ((( %% ???\n}\n" + "]] ??? (((\n" * 20
    assert "interface Lost" in symbols_of(text, "kotlin")


def test_keywords_in_comments_strings_and_forward_declarations_declare_nothing():
    text = '/* a\nclass InComment {\n*/\nx = """\nclass InString:\n"""\n// class Behind {\nclass Forward;\nstruct point origin(void) {\nclass Real {\n}\n'
    assert [declaration.name for declaration in scan(text.split("\n"))] == ["Real"]


def test_modifiers_and_annotations_may_stand_before_a_keyword():
    text = (
        "@Known(1) public sealed interface A<T> {\n  override suspend fun <T> run(a: T) = 1\n}\nexport default class B extends A {}\n"
        "pub(crate) fn c() {\n}\nclass SHOP_API D : E {\n};\nenum class F {\n}\nfunc (s *G) H() {\n}\n"
    )
    found = [
        (declaration.kind, declaration.name, declaration.row, declaration.last)
        for declaration in scan(text.split("\n"))
    ]
    assert found == [
        ("interface", "A", 0, 2),
        ("function", "run", 1, 1),
        ("class", "B", 3, 3),
        ("function", "c", 4, 5),
        ("class", "D", 6, 7),
        ("enum", "F", 8, 9),
        ("function", "H", 10, 11),
    ]


def test_hundreds_of_broken_sources_are_parsed_in_one_process():
    for _ in range(300):
        assert "interface Shop3" in symbols_of(KOTLIN, "kotlin")
