"""Web pages without the boilerplate around their content."""

import time

import pytest

from cortex.engine.readers import DocumentText, read_document
from cortex.engine.readers.html import read_html


def test_headings_paragraphs_lists_tables_and_code_become_markdown():
    page = """<html><head><title>T</title></head><body><h1>Title<a class="headerlink" href="#t">¶</a></h1>
    <p>Some <b>bold</b>
       and <code>x = 1</code>.<br>Next &amp; last</p>
    <ul><li>One<ul><li>deep</li></ul></li><li><p>Two</p><p>more</p></li></ul>
    <ol start=3><li>c<li>d</ol>
    <table><caption>Cap</caption><tr><th>A<th>B</tr><tr><td>1</td><td>2|3</td></tr></table>
    <pre class="language-python"><code>def f():
    return "<b>"</code></pre><blockquote>Quoted</blockquote><dl><dt>term<dd>meaning</dl></body></html>"""
    assert read_html(page) == (
        "# Title\n\nSome bold and `x = 1`.\nNext & last\n\n- One\n  - deep\n- Two\n  more\n\n3. c\n4. d\n\nCap\n\n"
        '| A | B |\n| --- | --- |\n| 1 | 2\\|3 |\n\n```python\ndef f():\n    return ""\n```\n\n> Quoted\n\nterm\n\nmeaning'
    )


def test_boilerplate_is_left_out():
    page = """<title>Page</title><header><a>Logo</a></header><nav>Menu</nav><div class="sidebar left">Side</div>
    <div role="navigation">Crumbs</div><script>var x = "<p>no</p>"</script><style>p {}</style><div hidden>Hidden</div>
    <div id="content"><h2>Part</h2><p>The text.</p><aside>Ad</aside></div><form><button>Send</button></form>
    <footer>Imprint</footer><div class="cookie-banner">Cookies</div>"""
    assert read_html(page) == "# Page\n\n## Part\n\nThe text."


def test_page_with_a_main_element_is_read_from_it_alone():
    words = "<p>" + "words of the article " * 20 + "</p>"
    page = f"<body><div>Welcome to the site, log in</div><main><h1>News</h1>{words}</main><div>See also</div></body>"
    assert read_html(page).startswith(
        "# News\n\nwords of the article"
    ) and "log in" not in read_html(page)


def test_main_element_with_little_text_is_not_taken_for_the_page():
    assert "The real text" in read_html(
        f"<body><main>x</main><div>{'The real text. ' * 9}</div></body>"
    )


def test_page_named_like_boilerplate_throughout_is_still_read():
    assert (
        read_html("<div class='menu'><h1>Lunch menu</h1><p>Soup</p></div>")
        == "# Lunch menu\n\nSoup"
    )


@pytest.mark.parametrize(
    "page",
    [
        "<div>" * 40_000 + "deep words",
        "<ul><li>" * 20_000 + "deep words",
        "<table><tr><td>" * 10_000 + "deep words",
        "<b>" * 40_000 + "deep words",
        "deep words" + "</div>" * 40_000,
        "<p>deep words" * 20_000,
    ],
)
def test_deeply_nested_page_is_read_quickly(page):
    started = time.process_time()
    document = read_document(page.encode(), "a.html")
    assert isinstance(document, DocumentText) and "deep words" in document.text
    assert time.process_time() - started < 3


def test_page_on_one_line_is_not_taken_for_minified():
    page = "<html><body>" + "<p>words in a page</p>" * 2000 + "</body></html>"
    document = read_document(page.encode(), "a.html")
    assert isinstance(document, DocumentText) and document.text.count("words in a page") == 2000


@pytest.mark.parametrize(
    "opened", ["<!--", "<a ", "</", "<?", "<![CDATA[", "<script>", "<a b='", "&", "<title>", "<h1>"]
)
@pytest.mark.parametrize("end", ["", ">"])
def test_thousands_of_unclosed_elements_are_read_quickly(opened, end):
    started = time.process_time()
    read_document((opened * 50_000 + end).encode(), "a.html")
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    "page",
    ["<", "<a", "<!DOCTYPE", "<![CDATA[x", "&#xFFFFFFFF; &bogus; &#55296; text", "<p <p>x", "<!--"],
)
def test_broken_page_is_read_without_an_error(page):
    read_document(page.encode(), "a.html")


def test_page_is_decoded_with_its_declared_encoding():
    raw = '<meta charset="windows-1251"><p>Привет, мир, это страница</p>'.encode("cp1251")
    document = read_document(raw, "a.html")
    assert isinstance(document, DocumentText) and "Привет, мир" in document.text
