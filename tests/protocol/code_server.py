"""`cortex mcp code` as a foreign client meets it, and the small repository that it is asked about."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from protocol.client import WAIT_SECONDS, Client

CORTEX = (sys.executable, "-m", "cortex")
ENVELOPE = {
    "code",
    "message",
    "category",
    "severity",
    "retryable",
    "context",
    "suggestions",
    "timestamp",
}
CATEGORIES = {"configuration", "filesystem", "network", "processing", "resource"}

FILES = {
    ".gitignore": "ignored/\n",
    "README.md": "# Shop\n\nA shop that sells books.\n\n## Payment\n\nInvoices are paid by card within thirty days.\n",
    "shop/basket.py": '''"""The basket of a customer."""


class Basket:
    """Holds what a customer is about to buy."""

    def __init__(self):
        self.lines = []

    def add_article(self, article, amount=1):
        """Put an article into the basket."""
        if amount < 1:
            raise ValueError("amount must be positive")
        self.lines.append((article, amount))

    def total_price(self, prices):
        """The sum over all lines of the basket."""
        return sum(prices[article] * amount for article, amount in self.lines)


def merge_baskets(first, second):
    """Join two baskets when a guest logs in."""
    merged = Basket()
    for article, amount in [*first.lines, *second.lines]:
        merged.add_article(article, amount)
    return merged
''',
    "shop/payment/invoice.py": '''"""Invoices and how they are paid."""

DAYS_TO_PAY = 30


def parse_invoice_number(text):
    """Read the number of an invoice such as INV-2024-0042."""
    prefix, year, number = text.split("-")
    if prefix != "INV":
        raise ValueError(f"not an invoice number: {text}")
    return int(year), int(number)


def remind_of_invoice(invoice, today):
    """Send a reminder when an invoice is overdue."""
    if (today - invoice.date).days > DAYS_TO_PAY:
        invoice.customer.send("please pay", invoice)
''',
    "web/cart.ts": '''export interface Article { id: string; price: number }

/** Adds an article to the cart that is shown in the page. */
export function addToCart(cart: Article[], article: Article): Article[] {
  return [...cart, article];
}

export class CartView {
  render(cart: Article[]): string {
    return cart.map((article) => `<li>${article.id}</li>`).join("");
  }
}
''',
    "tests/test_basket.py": '''from shop.basket import Basket


def test_total_price_of_an_empty_basket():
    assert Basket().total_price({}) == 0
''',
    "shop/empty.py": "",
    ".env": "PAYMENT_KEY=do-not-show\n",
    "ignored/draft.py": "def never_indexed():\n    return 1\n",
}  # fmt: skip


def make_repository(root: Path, files: dict[str, str] | None = None, *, git: bool = True) -> Path:
    """A folder with these files, by default the shop; a git repository by default."""
    for name, text in (FILES if files is None else files).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    if files is None:
        (root / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
        (root / "blob.dat2").write_bytes(bytes(range(256)) * 40)
    if git:
        subprocess.run(["git", "init", "-q", str(root)], check=True, timeout=30)
    return root


class CodeServer(Client):
    """A running `cortex mcp code`."""

    def __init__(self, *workspaces: Path, more: Sequence[str] = (), **options: object) -> None:
        flags = [part for path in workspaces for part in ("--workspace", str(path))]
        super().__init__([*CORTEX, "mcp", "code", *flags, *more], **options)

    def tool(self, name: str, **arguments: object) -> dict:
        """The answer of a tool, which must be no error; its text as JSON."""
        result = self.call(name, arguments)["result"]
        text = text_of(result)
        assert not result.get("isError"), text
        body = json.loads(text)
        if "structuredContent" in result:
            assert result["structuredContent"] == body
        return body

    def failure(self, name: str, **arguments: object) -> dict:
        """The error that a tool answers, in the form that all errors have."""
        result = self.call(name, arguments)["result"]
        assert result["isError"] is True, text_of(result)
        return check_envelope(json.loads(text_of(result)))

    def read(self, uri: str) -> dict:
        contents = self.request("resources/read", {"uri": uri})["result"]["contents"]
        assert [(content["uri"], content["mimeType"]) for content in contents] == [
            (uri, "application/json")
        ]
        return json.loads(contents[0]["text"])

    def wait_until_ready(self) -> None:
        wait_for(lambda: self.read("codeindex://workspace/status")["indexing"]["status"] == "ready")


def wait_for(condition: Callable[[], object], seconds: float = WAIT_SECONDS) -> None:
    """Until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def text_of(result: dict) -> str:
    assert [part["type"] for part in result["content"]] == ["text"]
    return result["content"][0]["text"]


def check_envelope(body: dict) -> dict:
    """The error of an envelope whose fields are exactly those of the contract."""
    assert set(body) == {"error"}
    error = body["error"]
    assert set(error) == ENVELOPE
    assert error["category"] in CATEGORIES
    assert error["severity"] in ("error", "warning", "info")
    assert isinstance(error["retryable"], bool)
    assert isinstance(error["context"], dict)
    assert error["suggestions"]
    assert all(isinstance(suggestion, str) and suggestion for suggestion in error["suggestions"])
    time.strptime(error["timestamp"], "%Y-%m-%dT%H:%M:%SZ")
    return error
