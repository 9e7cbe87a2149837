"""search_code and find_similar_code over MCP."""

import json

import pytest

from cortex.families.code.tools.definitions import MODES
from protocol.code_server import text_of


def files_of(body):
    return [result["file"] for result in body["results"]]


def test_a_result_has_the_fields_of_the_contract(server):
    body = server.tool("search_code", query="parse invoice number")
    first = body["results"][0]
    assert set(first) == {"file", "chunk", "relevance", "context"}
    assert first["file"] == "shop/payment/invoice.py"
    assert set(first["chunk"]) == {"text", "startLine", "endLine"}
    lines = first["chunk"]["endLine"] - first["chunk"]["startLine"]
    assert first["chunk"]["text"].count("\n") == lines
    assert "def parse_invoice_number" in first["chunk"]["text"]
    assert 0 < first["relevance"] <= 1
    assert first["context"]["language"] == "python"
    assert [result["relevance"] for result in body["results"]] == sorted(
        (result["relevance"] for result in body["results"]), reverse=True
    )


def test_the_metadata_says_strategy_time_total_and_freshness(server):
    metadata = server.tool("search_code", query="basket")["metadata"]
    assert {"strategy", "executionTime", "totalResults", "index", "truncated"} <= set(metadata)
    assert isinstance(metadata["executionTime"], int | float)
    assert metadata["totalResults"] >= 2
    assert metadata["index"]["status"] == "ready"
    assert metadata["index"]["lastIndexed"].endswith("Z")
    assert metadata["truncated"] is False


def test_the_structured_answer_equals_the_text(server):
    for name, arguments in (
        ("search_code", {"query": "basket"}),
        ("find_similar_code", {"code": "def total_price(self): ..."}),
    ):
        result = server.call(name, arguments)["result"]
        assert result["structuredContent"] == json.loads(text_of(result))


@pytest.mark.parametrize("spelling", ["py", ".py", "*.py", "PY", " py "])
def test_file_types_match_any_spelling_of_an_extension(server, spelling):
    files = files_of(server.tool("search_code", query="article basket cart", fileTypes=[spelling]))
    assert files
    assert all(file.endswith(".py") for file in files)


def test_several_file_types_and_the_star_are_understood(server):
    both = files_of(server.tool("search_code", query="article", fileTypes=["ts", "md"]))
    assert {file.rsplit(".", 1)[1] for file in both} <= {"ts", "md"}
    everything = files_of(server.tool("search_code", query="article", fileTypes=["*"]))
    assert everything == files_of(server.tool("search_code", query="article"))
    assert {"py", "ts"} <= {file.rsplit(".", 1)[1] for file in everything}
    assert server.tool("search_code", query="article", fileTypes=["zig"])["results"] == []
    assert files_of(server.tool("search_code", query="article", fileTypes=[])) == everything


def test_too_many_file_types_are_refused_with_a_reason(server):
    types = [f"x{number}" for number in range(200)]
    assert server.failure("search_code", query="a", fileTypes=types)["code"] == "ARGUMENT_INVALID"


def test_max_results_has_bounds_and_accepts_whole_floats(server):
    assert len(server.tool("search_code", query="basket article", maxResults=1)["results"]) == 1
    assert len(server.tool("search_code", query="basket article", maxResults=2.0)["results"]) == 2
    for wrong in (0, 201, "5", None, 0.5):
        assert (
            server.call("search_code", {"query": "a", "maxResults": wrong})["error"]["code"]
            == -32602
        )


def test_the_threshold_leaves_out_what_is_less_relevant(server):
    everything = server.tool("search_code", query="article in the basket", threshold=0)
    relevances = [result["relevance"] for result in everything["results"]]
    cut = sorted(relevances)[len(relevances) // 2]
    assert min(relevances) < cut
    some = server.tool("search_code", query="article in the basket", threshold=cut)
    assert [result["relevance"] for result in some["results"]] == [
        relevance for relevance in relevances if relevance >= cut
    ]
    assert some["metadata"]["totalResults"] == len(some["results"])


def test_unrelated_query_finds_nothing_unless_the_threshold_is_zero(server):
    question = {"query": "how does the number of kubernetes pods follow the load of a cluster?"}
    body = server.tool("search_code", **question)
    assert body["results"] == []
    assert any("threshold 0.65" in note for note in body["metadata"]["notes"])
    assert server.tool("search_code", **question, threshold=0)["results"]


def test_answer_names_the_tfidf_and_fullworkspace_strategies(server):
    words = server.tool("search_code", query="overdue reminder", strategy="tfidf")
    assert words["metadata"]["strategy"] == "tfidf"
    assert "notes" not in words["metadata"]
    full = server.tool("search_code", query="overdue reminder", strategy="fullworkspace")
    assert full["metadata"]["strategy"] == "fullworkspace"
    assert [result["chunk"] for result in full["results"]] == [
        word["chunk"] for word in words["results"]
    ]


def test_quoted_text_is_found_verbatim(server):
    body = server.tool("search_code", query='"please pay"')
    assert body["metadata"]["strategy"] == "exact"
    assert files_of(body) == ["shop/payment/invoice.py"]
    assert '"please pay"' in body["results"][0]["chunk"]["text"]
    assert server.tool("search_code", query='"please  pay"')["results"] == []
    assert files_of(server.tool("search_code", query='"article"', fileTypes=["ts"])) == [
        "web/cart.ts"
    ]


def test_text_between_slashes_is_a_regular_expression(server):
    body = server.tool("search_code", query=r"/def \w+_invoice\w*\(/")
    assert body["metadata"]["strategy"] == "exact"
    assert set(files_of(body)) == {"shop/payment/invoice.py"}
    failure = server.failure("search_code", query="/def (/")
    assert (failure["code"], failure["category"]) == ("REGEX_INVALID", "processing")


@pytest.mark.parametrize("query", ['"voice_num"', "/voice_n[a-z]m/"])
def test_an_exact_query_finds_parts_of_words_with_every_strategy(server, query):
    for strategy in MODES:
        body = server.tool("search_code", query=query, strategy=strategy)
        assert (body["metadata"]["strategy"], files_of(body)) == (
            "exact",
            ["shop/payment/invoice.py"],
        ), strategy


@pytest.mark.parametrize("query", ["", "   ", "\n\t", '"   "'])
def test_an_empty_query_is_an_error_that_says_what_to_do(server, query):
    failure = server.failure("search_code", query=query)
    assert failure["code"] == "QUERY_EMPTY"
    assert not failure["retryable"]


def test_oversized_query_is_refused(server):
    assert server.failure("search_code", query="x " * 20_000)["code"] == "QUERY_INVALID"


def test_symbols_are_found_by_name_but_secret_and_ignored_files_are_not(server):
    assert files_of(server.tool("search_code", query="merge_baskets"))[0] == "shop/basket.py"
    for query in ("do-not-show", '"do-not-show"', "never_indexed", '"never_indexed"'):
        for strategy in ("auto", "fullworkspace"):
            files = files_of(server.tool("search_code", query=query, strategy=strategy))
            assert not {".env", "ignored/draft.py"} & set(files)


def place_of(result):
    return (
        result["file"],
        result["chunk"]["startLine"],
        result["chunk"]["endLine"],
        result["relevance"],
    )


def test_the_cursor_gives_every_result_once(server):
    question = {"query": "article basket invoice cart price", "maxResults": 2, "threshold": 0}
    whole = server.tool("search_code", **{**question, "maxResults": 200})["results"]
    pages, cursor = [], None
    while True:
        body = server.tool("search_code", **question, **({"cursor": cursor} if cursor else {}))
        pages.append(body["results"])
        cursor = body["metadata"].get("cursor")
        if cursor is None:
            break
    assert len(pages) > 1
    assert [place_of(result) for page in pages for result in page] == [
        place_of(result) for result in whole
    ]
    # Each page shows the text of its first results
    assert all(page[0]["chunk"]["text"] for page in pages)


def test_a_small_budget_pages_through_everything(server):
    question = {"query": "article basket invoice cart price", "budget": 200}
    places, cursor = [], None
    while True:
        result = server.call("search_code", question | ({"cursor": cursor} if cursor else {}))[
            "result"
        ]
        assert len(text_of(result)) <= 800
        body = json.loads(text_of(result))
        assert body["results"]
        places += [(result["file"], result["chunk"]["startLine"]) for result in body["results"]]
        cursor = body["metadata"].get("cursor")
        if cursor is None:
            break
    whole = server.tool("search_code", query=question["query"], budget=50_000)["results"]
    assert places == [(result["file"], result["chunk"]["startLine"]) for result in whole]


def test_a_budget_gives_the_best_hits_with_text_and_the_rest_without(server):
    body = server.tool("search_code", query="article basket invoice cart price", budget=400)
    with_text = ["text" in result["chunk"] for result in body["results"]]
    assert with_text[0]
    assert not with_text[-1]
    assert with_text == sorted(with_text, reverse=True)
    bare = body["results"][-1]
    assert set(bare) == {"file", "chunk", "relevance"}
    assert set(bare["chunk"]) == {"startLine", "endLine"}
    assert body["metadata"]["truncated"] is True


def test_too_small_a_budget_and_a_foreign_cursor_are_errors(server):
    for budget in (1, 199):
        failure = server.failure("search_code", query="basket", budget=budget)
        assert failure["code"] == "BUDGET_TOO_SMALL"
        assert "200" in failure["suggestions"][-1]
    cursor = server.tool("search_code", query="article basket", maxResults=1)["metadata"]["cursor"]
    for other in (
        {"query": "invoice", "maxResults": 1},
        {"query": "article basket", "maxResults": 2},
    ):
        assert server.failure("search_code", **other, cursor=cursor)["code"] == "CURSOR_INVALID"
    for wrong in ("", "x", "é", "AAAA", "=" * 50, cursor[:-4]):
        failure = server.failure("search_code", query="article basket", maxResults=1, cursor=wrong)
        assert failure["code"] == "CURSOR_INVALID"


def test_similar_code_is_found_and_the_language_narrows(server):
    code = "def join(first, second):\n    for article, amount in first.lines:\n        merged.add_article(article, amount)"
    body = server.tool("find_similar_code", code=code)
    assert body["results"][0]["file"] == "shop/basket.py"
    assert {"strategy", "executionTime", "totalResults"} <= set(body["metadata"])
    for spelling in ("typescript", "TypeScript", "ts"):
        files = files_of(server.tool("find_similar_code", code="cart article", language=spelling))
        assert files
        assert all(file.endswith(".ts") for file in files)
    assert len(server.tool("find_similar_code", code=code, maxResults=1)["results"]) == 1


def test_an_unknown_language_is_an_error_that_names_the_known(server):
    failure = server.failure("find_similar_code", code="x", language="klingon")
    assert failure["code"] == "ARGUMENT_INVALID"
    assert "python" in failure["suggestions"][0]
    assert server.failure("find_similar_code", code=" ")["code"] == "QUERY_EMPTY"
