"""Code chunks: functions kept whole, split or joined, with their names and signatures."""

from cortex.base.types import Chunk
from cortex.engine.chunkers import cut


def chunks_of(text: str, language: str = "python", target: int = 250) -> list[Chunk]:
    return list(cut(text, "x", language, target).chunks)


def make_function(name: str, characters: int) -> str:
    lines = [f"def {name}(a, b):"]
    while sum(len(line) + 1 for line in lines) < characters:
        lines.append(f"    value_{len(lines)} = a + b * {len(lines)}")
    return "\n".join(lines) + "\n"


def test_a_function_that_fits_is_one_chunk_with_its_comment_and_decorator():
    imports = "".join(f"import module_number_{n}\n" for n in range(6))
    text = imports + "\n\n# Says hello.\n@cached\n" + make_function("hello", 600)
    block, hello = chunks_of(text)
    assert (block.kind, block.name, block.start_line, block.end_line) == ("block", "", 1, 6)
    assert (hello.kind, hello.qualified, hello.start_line) == ("function", "hello", 9)
    assert (hello.signature, hello.doc) == ("def hello(a, b)", "Says hello.")


def test_a_function_a_little_over_the_target_stays_whole():
    assert len(chunks_of(make_function("f", 1300))) == 1


def test_a_long_function_is_split_between_statements_and_every_part_keeps_its_name():
    parts = chunks_of(make_function("long_one", 4000))
    assert len(parts) >= 4
    assert {(part.kind, part.name, part.signature) for part in parts} == {
        ("function", "long_one", "def long_one(a, b)")
    }


def test_a_split_keeps_a_statement_of_several_lines_together():
    call = "    call(\n" + "".join(f"        argument_number_{n},\n" for n in range(20)) + "    )\n"
    text = "def f():\n" + call * 8
    for part in chunks_of(text):
        body = text[part.start : part.end]
        assert body.count("(") == body.count(")")


def test_a_large_class_opens_into_its_head_and_its_methods():
    methods = "\n".join(
        "    " + line if line else ""
        for n in range(4)
        for line in make_function(f"m{n}", 700).split("\n")
    )
    text = f'class Big(Base):\n    """What it is for. And more."""\n\n    limit = 3\n\n{methods}'
    head, *rest = chunks_of(text)
    assert (head.kind, head.qualified, head.signature, head.doc) == (
        "class",
        "Big",
        "class Big(Base)",
        "What it is for.",
    )
    assert [(part.kind, part.qualified) for part in rest] == [
        ("method", f"Big.m{n}") for n in range(4)
    ]


def test_small_neighbours_share_a_chunk_that_names_them_in_its_signature():
    text = "A = 1\nB = 2\n\ndef one(): return 1\n\ndef two(): return 2\n"
    (chunk,) = chunks_of(text)
    assert (chunk.kind, chunk.signature) == ("block", "def one(); def two()")


def test_small_methods_of_a_large_class_are_named_after_the_class():
    small = "".join(f"    def get_{n}(self): return {n}\n" for n in range(12))
    large = "\n".join("    " + line for line in make_function("large", 1400).rstrip().split("\n"))
    found = chunks_of(f"class C:\n{large}\n{small}")
    together = found[-1]
    assert (together.kind, together.qualified) == ("class", "C")
    assert "def get_3(self)" in together.signature


def test_a_closing_brace_is_no_chunk_of_its_own():
    methods = "".join(
        f"  method{n}() {{\n" + f"    this.value = {n};\n" * 40 + "  }\n\n" for n in range(3)
    )
    found = chunks_of("class A {\n" + methods + "}\n", "javascript")
    assert found[-1].qualified == "A.method2"
    assert found[-1].end_line == 131


def test_a_signature_is_one_line_without_the_body():
    text = (
        "def f(\n    first: int,\n    second: str = 'x',\n) -> dict[str, int]:\n"
        + "    call()\n" * 40
    )
    (chunk,) = chunks_of(text)
    assert chunk.signature == "def f( first: int, second: str = 'x', ) -> dict[str, int]"


def test_a_comment_between_declaration_and_body_is_not_in_the_signature():
    text = "def f(a):  # noqa\n    # Why this is so.\n    # And so.\n" + "    call()\n" * 40
    (chunk,) = chunks_of(text)
    assert chunk.signature == "def f(a)"


def test_a_small_function_with_a_line_beside_it_keeps_its_name():
    text = "def greet(name):\n    words = 'hello ' + name\n    return words.title()\n\nempty = object()\n"
    (chunk,) = chunks_of(text)
    assert (chunk.kind, chunk.name, chunk.end_line) == ("function", "greet", 5)


def test_documentation_comments_of_other_languages_are_understood():
    body = " { " + "call(); " * 40 + "}\n"
    sources = {
        "javascript": "/**\n * Adds numbers. Quickly.\n * @param a\n */\nfunction f(a)" + body,
        "java": "class A {\n/** Adds numbers. */\n@Override\nvoid f()" + body + "}",
        "rust": "/// Adds numbers.\n/// Quickly.\n#[inline]\nfn f(a: i32)" + body,
        "go": "// Adds numbers. Quickly.\nfunc f(a int)" + body,
        "csharp": "class A {\n/// <summary>Adds numbers.</summary>\n[Attr]\npublic void f()"
        + body
        + "}",
        "c": "/* Adds numbers. */\nint f(int a)" + body,
    }
    for language, text in sources.items():
        docs = {chunk.doc for chunk in chunks_of(text, language, 60)}
        assert "Adds numbers." in docs, language


def test_offsets_count_characters_and_not_bytes():
    text = (
        "# Größe 🎉\nNAME = 'é'\n\n"
        + make_function("naïve", 500)
        + "\n# 終わり\n"
        + make_function("ending", 500)
    )
    found = chunks_of(text)
    assert [chunk.name for chunk in found] == ["NAME", "naïve", "ending"]
    assert text[found[1].start : found[1].end].startswith("def naïve(a, b):")
    assert text[found[2].start : found[2].end].startswith("# 終わり\ndef ending")


def test_text_with_syntax_errors_is_still_cut_whole():
    text = "def ok():\n    return 1\n\nclass (((:\n  def broken(\n" + "}}} ??? \n" * 50
    found = chunks_of(text)
    assert "ok" in {symbol.name for symbol in cut(text, "x.py", "python").symbols}
    assert found[-1].end_line == 55


def test_deep_nesting_does_not_exhaust_the_stack():
    for language, text in {
        "python": "(" * 20_000 + ")" * 20_000,
        "javascript": "".join("{" for _ in range(20_000)),
        "json": "[" * 20_000,
        "java": "class A {" * 3_000,
    }.items():
        found = cut(text, "x", language).chunks
        assert "".join(text[c.start : c.end] for c in found) == text


def test_a_line_of_a_megabyte_is_split_and_not_lost():
    text = "x = [" + "1, " * 300_000 + "]\n"
    found = chunks_of(text)
    assert "".join(text[c.start : c.end] for c in found) == text.rstrip("\n")
    assert {(c.start_line, c.end_line) for c in found} == {(1, 1)}
    assert max(c.end - c.start for c in found) <= 1500


def test_the_smallest_target_still_works():
    text = make_function("f", 400)
    assert len(cut(text, "x.py", "python", 1).chunks) > 1
