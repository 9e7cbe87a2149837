"""Cache of answers: bounded by bytes and age, the least recently used are evicted first."""

from cortex.base.runtime.lru_cache import HIT_BYTES, PAGE_BYTES, Cache
from cortex.base.types import Hit, Mode, Page


def page(characters: int) -> Page:
    hit = Hit(1, 1, 1, "a.py", 1, 1, "x" * characters, 1.0, 1.0)
    return Page((hit,), 1, Mode.WORDS)


def test_cached_page_is_returned_and_counted():
    cache = Cache(10_000, 60)
    assert cache.get("a") is None
    cache.put("a", page(10))
    assert cache.get("a") == page(10)
    assert cache.hit_rate == 0.5
    assert cache.size == PAGE_BYTES + HIT_BYTES + 20


def test_least_recently_used_page_is_evicted_at_the_size_limit():
    cache = Cache(3 * (PAGE_BYTES + HIT_BYTES + 200), 60)
    for key in "abc":
        cache.put(key, page(100))
    cache.get("a")
    cache.put("d", page(100))
    assert cache.get("b") is None
    assert all(cache.get(key) for key in "acd")
    cache.put("huge", page(1_000_000))
    assert cache.get("huge") is None
    assert cache.size == 3 * (PAGE_BYTES + HIT_BYTES + 200)


def test_expired_page_is_removed():
    cache = Cache(10_000, max_age_seconds=0)
    cache.put("a", page(10))
    assert cache.get("a") is None
    assert cache.size == 0


def test_second_put_replaces_the_page():
    cache = Cache(10_000, 60)
    cache.put("a", page(10))
    cache.put("a", page(20))
    assert cache.get("a") == page(20)
    assert cache.size == PAGE_BYTES + HIT_BYTES + 40


def test_empty_pages_count_with_their_query():
    cache = Cache(10 * PAGE_BYTES, 60)
    for number in range(100):
        cache.put(number, Page((), 0, Mode.WORDS), asked=PAGE_BYTES)
    assert cache.size == 10 * PAGE_BYTES
    assert [number for number in range(100) if cache.get(number)] == [95, 96, 97, 98, 99]
