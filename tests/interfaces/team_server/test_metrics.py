"""Metrics of a Core: counts and durations of requests, never of records."""

from __future__ import annotations


def test_metrics_count_requests_and_reveal_no_records(core, ada):
    ada.post("/threads", {"title": "a"})
    ada.ask("GET", "/threads/nothing")
    text = core.http.get("/metrics", headers={"Authorization": f"Bearer {ada.token}"})
    assert text.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    lines = text.text.splitlines()
    assert 'cortex_requests_total{method="POST",route="/api/v2/threads",status="201"} 1' in lines
    assert (
        'cortex_requests_total{method="GET",route="/api/v2/threads/{id}",status="404"} 1' in lines
    )
    assert 'cortex_request_seconds_bucket{route="/api/v2/threads",le="+Inf"} 1' in lines
    assert "cortex_feed_lag_changes 0" in lines
    assert not any("records" in line for line in lines)
    for line in lines:
        assert line.startswith("# ") or float(line.rpartition(" ")[2]) >= 0


def test_made_up_methods_share_one_metrics_label(core, ada):
    for number in range(20):
        core.http.request(f"MADE{number}", "/health")
    text = core.http.get("/metrics", headers={"Authorization": f"Bearer {ada.token}"}).text
    assert (
        'cortex_requests_total{method="other",route="/health",status="405"} 20' in text.splitlines()
    )
