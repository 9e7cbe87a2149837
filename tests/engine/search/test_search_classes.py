"""Every kind of query from end to end, over a small made-up repository."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex.base.settings import load
from cortex.base.types import Hit, Mode, Page, Query
from cortex.engine.engine import Engine

FILES = {
    "README.md": "# Shop\n\nA shop that sells books. Install it, then start the server.\n",
    "docs/orders.md": "# Orders\n\n## Refunds\n\nA refund gives the money of an order back to the customer.\n",
    "docs/install.md": "# Installation guide\n\nInstall the shop with one command.\n",
    "shop/__init__.py": '"""A shop."""\n\nfrom shop.orders.order import Order\nfrom shop.server import serve\n\n__all__ = ["Order", "serve"]\n',
    "shop/main.py": 'from shop.server import serve\n\n\ndef main():\n    """Where the program begins: read settings, open the database, serve."""\n    serve(8080)\n',
    "shop/server.py": '"""The HTTP server."""\n\n\nclass Server:\n    def handle_request(self, request):\n        """Route a request to the page that answers it."""\n        return self.routes[request.path](request)\n\n\ndef serve(port):\n    Server().listen(port)\n',
    "shop/orders/order.py": (
        "from shop.errors import RefundError\n\n\nclass Order:\n"
        '    """What a customer has bought."""\n\n'
        "    def refund(self, amount):\n"
        '        """Give money back."""\n'
        "        if amount > self.paid:\n"
        '            raise RefundError("cannot refund more than was paid")\n'
        "        self.paid -= amount\n\n"
        "    def ship(self, address):\n        self.parcel = pack(self.books, address)\n"
    ),
    "shop/orders/parcel.py": "def pack(books, address):\n    return {'books': books, 'to': address}\n\n\nclass ParcelLabel:\n    def refund(self):\n        return None\n",
    "shop/errors.py": 'class RefundError(Exception):\n    """Raised where money can\'t be given back."""\n',
    "shop/discount.py": "RATES = {'student': 0.2}\n\n\ndef apply_discount(price, kind):\n    return price * (1 - RATES.get(kind, 0))\n",
    "shop/i18n_cjk.py": '# 注文をキャンセルする\nCANCEL = "注文をキャンセルする"\n',
    "web/basket.js": "export class Basket {\n  addBook(book) {\n    if (!book.id) {\n      throw new TypeError('book has no id')\n    }\n    this.books.push(book)\n  }\n}\n",
    "web/한국어.js": "// 장바구니에 책을 담는다\nexport const label = '장바구니'\n",
    "tests/test_order.py": "from shop import Order\n\n\ndef test_refund_gives_money_back():\n    order = Order()\n    order.refund(3)\n    assert order.paid == 0\n\n\ndef test_refund_of_too_much_is_refused():\n    raises(RefundError, Order().refund, 9)\n",
}
PYTHON_TRACE = """\
Traceback (most recent call last):
  File "/srv/app/shop/orders/order.py", line 10, in refund
    raise RefundError("cannot refund more than was paid")
shop.errors.RefundError: cannot refund more than was paid"""
JS_TRACE = """\
TypeError: book has no id
    at Basket.addBook (/srv/app/web/basket.js:4:13)
    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    root = tmp_path_factory.mktemp("workspace")
    write(root, FILES)
    home = str(tmp_path_factory.mktemp("home"))
    with Engine(root, load(root, environment={"CORTEX_HOME": home})) as opened:
        opened.index()
        yield opened


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def ask(engine: Engine, text: str, **more: object) -> Page:
    return engine.search(Query(text, mode=Mode.WORDS, **more))  # type: ignore[arg-type]


def first(engine: Engine, text: str, **more: object) -> Hit:
    return ask(engine, text, **more).hits[0]


QUERIES = {
    "symbol": ("RefundError", "shop/errors.py"),
    "symbol in another case": ("basket", "web/basket.js"),
    "beginning of a symbol": ("apply_disc", "shop/discount.py"),
    "qualified symbol": ("Order.refund", "shop/orders/order.py"),
    "other qualified symbol": ("ParcelLabel::refund", "shop/orders/parcel.py"),
    "path": ("shop/orders/parcel.py", "shop/orders/parcel.py"),
    "file name": ("parcel.py", "shop/orders/parcel.py"),
    "path and line": ("web/basket.js:4", "web/basket.js"),
    "quoted string": ('where is "book has no id" said', "web/basket.js"),
    "error message": ("RefundError: cannot refund more than was paid", "shop/orders/order.py"),
    "stack trace of Python": (PYTHON_TRACE, "shop/orders/order.py"),
    "stack trace of JavaScript": (JS_TRACE, "web/basket.js"),
    "question": ("how is a request routed to its page?", "shop/server.py"),
    "architecture question": (
        "overview: where does the program begin and open the database",
        "shop/main.py",
    ),
    "test-seeking": ("tests of refunding an order", "tests/test_order.py"),
    "doc-seeking": ("documentation of refunds", "docs/orders.md"),
    "guide": ("installation guide", "docs/install.md"),
    "words that make a name": ("the parcel label", "shop/orders/parcel.py"),
    "mixed": ("which tests check `Order.refund`?", "tests/test_order.py"),
    "Japanese": ("キャンセル", "shop/i18n_cjk.py"),
    "Japanese sentence": ("注文をキャンセルするには", "shop/i18n_cjk.py"),
    "Korean": ("장바구니에 담는다", "web/한국어.js"),
}


@pytest.mark.parametrize(("text", "path"), QUERIES.values(), ids=QUERIES)
def test_each_kind_of_query_finds_its_answer_first(engine: Engine, text: str, path: str):
    assert first(engine, text).path == path


def test_code_snippet_finds_similar_code(engine: Engine):
    assert (
        first(engine, "return cost * (1 - RATES.get(sort, 0))", code=True).path
        == "shop/discount.py"
    )


def test_hit_names_its_strongest_evidence(engine: Engine):
    assert first(engine, "RefundError").why == "defines RefundError"
    assert first(engine, "web/basket.js:4").why == "named place"
    assert first(engine, "who says 'book has no id'").why == "phrase"


def test_test_comes_after_the_code_unless_asked_for(engine: Engine):
    found = [hit.path for hit in ask(engine, "refund gives money back").hits]
    assert found.index("shop/orders/order.py") < found.index("tests/test_order.py")


@pytest.mark.parametrize(
    "text", [*(text for text, _ in QUERIES.values()), "order refund book request price"]
)
def test_first_hits_do_not_depend_on_the_limit(engine: Engine, text: str):
    assert ask(engine, text, limit=3).hits == ask(engine, text, limit=50).hits[:3]


@pytest.mark.parametrize("text", [text for text, _ in QUERIES.values()])
def test_explanation_of_a_hit_adds_up_to_its_score(engine: Engine, text: str):
    for hit in ask(engine, text, explain=True).hits:
        added = sum(value for label, value in hit.evidence if not label.startswith("x "))
        factors = [value for label, value in hit.evidence if label.startswith("x ")]
        assert added * math.prod(factors) == pytest.approx(hit.score, abs=0.0015)


def test_hits_have_no_explanation_by_default(engine: Engine):
    assert first(engine, "refund").evidence == ()
    assert first(engine, "refund", explain=True).evidence


def test_threshold_keeps_known_names_and_drops_absent_topics_with_a_note(engine: Engine):
    known = ask(engine, "RefundError", threshold=0.65)
    assert known.hits[0].path == "shop/errors.py"
    absent = ask(
        engine,
        "how does the scheduler distribute kubernetes pods over requests of nodes?",
        threshold=0.65,
    )
    assert absent.hits == ()
    assert absent.total == 0
    assert any("threshold 0.65" in note for note in absent.notes)
    assert ask(
        engine, "how does the scheduler distribute kubernetes pods over requests of nodes?"
    ).hits


def test_query_without_candidates_has_no_threshold_note(engine: Engine):
    assert ask(engine, "zzzqqq", threshold=0.65).notes == ()


def test_snippet_is_cut_from_the_lines_of_its_hit(engine: Engine):
    hit = first(engine, PYTHON_TRACE, snippets=(150,))
    lines = (FILES[hit.path]).split("\n")
    shown = [line for line in hit.text.split("\n") if not line.startswith("…")]
    assert shown == [lines[number - 1] for number in hit.lines]
    assert "cannot refund more than was paid" in hit.text


def test_first_hits_get_the_most_text_and_the_last_none(engine: Engine):
    hits = ask(engine, "refund order book", snippets=(200, 80, 0)).hits
    assert hits[0].text
    assert len(hits[1].text) <= 80 + 2 * 10
    assert all(not hit.text for hit in hits[2:])


def test_a_short_text_is_shown_whole_without_marks(engine: Engine):
    hit = first(engine, "RefundError", snippets=(480,))
    assert hit.lines == ()
    assert hit.text.strip() == FILES["shop/errors.py"].strip()


def test_definition_is_above_the_cut_among_many_mentions(tmp_path: Path):
    root = tmp_path / "workspace"
    # One chunk, no name
    small = "".join(f"def small_{number}():\n    return {number}\n\n\n" for number in range(5))
    users = {f"a{number:03}.py": "take()\n" for number in range(300)}
    write(root, users | {"z.py": f"{small}def take():\n    return 9\n"})
    with Engine(root, load(root, environment={"CORTEX_HOME": str(tmp_path / "home")})) as opened:
        opened.index()
        hit = first(opened, "take", threshold=0.65)
        assert dict(first(opened, "take", explain=True).evidence)["coverage"] == pytest.approx(
            0.3, abs=1e-3
        )
    assert (hit.path, hit.why) == ("z.py", "defines take")


def test_last_changed_of_two_equal_files_comes_first(tmp_path: Path):
    root, text = tmp_path / "workspace", "def take():\n    return 1\n"
    write(root, {"a.py": text, "b.py": text + "\n", "c.py": text + "\n\n"})
    day = 86_400
    for path, when in (("a.py", 10 * day), ("b.py", 30 * day), ("c.py", 10 * day)):
        os.utime(root / path, (when, when))
    with Engine(root, load(root, environment={"CORTEX_HOME": str(tmp_path / "home")})) as opened:
        opened.index()
        assert [hit.path for hit in ask(opened, "take").hits] == ["b.py", "a.py", "c.py"]
