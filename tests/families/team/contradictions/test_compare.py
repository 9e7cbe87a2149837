from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.families.team.contradictions.compare import Difference, differences, same_subject

# Pairs as they stand in engineers' notes, with the kind of their difference.
CONFLICTING: tuple[tuple[str, str, str], ...] = (
    ("number", "timeout is 30 s", "timeout is 60 s"),
    ("number", "The request timeout of the gateway is 30 seconds.", "Gateway: request timeout is 45 s."),
    ("number", "We keep 3 replicas of each shard.", "Each shard has five replicas."),
    ("number", "The connection pool of the API holds 20 connections.", "The API's connection pool holds 50 connections, see the dashboard."),
    ("number", "Uploads are limited to 10 MB per file.", "Uploads are limited to 25 MB per file. Larger ones go to the bucket."),
    ("number", "Session tokens expire after 14 days.", "Session tokens expire after 24 hours."),
    ("number", "The cache TTL of user profiles is 300 s.", "We set the cache TTL of user profiles to 10 min."),
    ("number", "The nightly backup job is retried 3 times.", "The nightly backup job is retried 5 times, then it pages us."),
    ("number", "The rate limit per key is 200 requests per second.", "Rate limit: 500 requests per second per key."),
    ("number", "The metrics service listens on port 9090.", "The metrics service listens on port 9100."),
    ("number", "We require 80 % line coverage for merges.", "Merges require 90 % line coverage."),
    ("number", "Logs of the audit trail are kept for 90 days.", "Audit trail logs are kept for 365 days because of the regulator."),
    ("version", "We run on Python 3.11.", "We run on Python 3.13."),
    ("version", "The service needs Node 18 in its image.", "The image of the service is built with Node 20."),
    ("version", "Production database: Postgres 15.", "The production database is Postgres 16."),
    ("version", "Pinned to tantivy==0.22.0.", "tantivy 0.27.1 is pinned."),
    ("value", "pool_size=10", "pool_size: 20"),
    ("value", "Set `LOG_LEVEL=debug` for the workers.", "Workers log with `LOG_LEVEL=info`."),
    ("value", '```json\n{"retries": 3, "timeout": 30}\n```', '```json\n{"retries": 5, "timeout": 30}\n```'),
    ("value", "export FEATURE_SEARCH=true", "FEATURE_SEARCH=false"),
    ("value", "The default branch is `main`.", "The default branch is `master`."),
    ("value", "maxConnections: 100", "max_connections = 250"),
    ("value", "journal_mode = WAL", "journal_mode = DELETE"),
    ("negation", "we retry writes", "we never retry writes"),
    ("negation", "Compression is enabled on the internal link.", "Compression is disabled on the internal link."),
    ("negation", "The importer deletes rows that are missing in the file.", "The importer does not delete rows that are missing in the file."),
    ("negation", "We use feature flags for migrations.", "We no longer use feature flags for migrations."),
    ("negation", "Guests can export reports.", "Guests can't export reports, by order of the legal team."),
    ("negation", "TLS is on for the metrics endpoint.", "TLS is turned off for the metrics endpoint."),
    ("negation", "A review is required for hotfixes.", "For hotfixes a review is optional."),
    ("negation", "The queue preserves the order of messages.", "Note that the queue doesn't preserve the order of messages."),
    ("negation", "Deploys run without manual approval.", "Deploys run with manual approval."),
    ("number", "The worker fetches 50 jobs per poll.", "The worker fetches 200 jobs per poll."),
    ("number", "Chunks are at most 1,000 characters long with an overlap of 100.", "Chunks are at most 1,500 characters long with an overlap of 100."),
    ("number", "Our SLO for checkout is 99.9 % availability.", "Checkout availability SLO: 99.5 %."),
    ("number", "The budget for the GPU cluster is $4,000 per month.", "The GPU cluster's budget is $6,500 per month."),
    ("number", "Access tokens live for 15 minutes.", "Access tokens live for 1 hour."),
    ("number", "Password hashes use bcrypt with 10 rounds.", "Password hashes use bcrypt with 12 rounds."),
    ("number", "Kafka topic orders has 12 partitions.", "The Kafka topic orders has 24 partitions."),
    ("number", "| setting | value |\n|---|---|\n\n`retention_days` is 30.", "`retention_days` is 90."),
    ("number", "Set pool_size=10 for the API.", "The pool size is 20."),
    ("number", "Each tenant gets 5 GB of storage.", "Storage per tenant is 10 GB."),
    ("number", "Heartbeats are sent every 10 seconds.", "Heartbeats are sent every 30 seconds."),
    ("number", "A lease expires after 30 s without a heartbeat.", "A lease expires after 2 min without a heartbeat."),
    ("number", "The vector index has 384 dimensions.", "The vector index has 768 dimensions."),
    ("number", "Webhooks are retried for 24 hours.", "Webhooks are retried for 72 hours."),
    ("number", "The CDN caches assets for 1 year.", "Assets are cached by the CDN for 30 days."),
    ("number", "Search answers within 50 ms at p95.", "Search answers within 200 ms at p95."),
    ("number", "The scheduler wakes up every 5 minutes.", "The scheduler wakes up every 15 minutes."),
    ("number", "Users are locked out after 5 failed logins.", "Users are locked out after 10 failed logins."),
    ("number", "We decided that sessions last 14 days, so that nobody is logged out over a holiday.", "Sessions last 30 days."),
    ("number", "Thumbnails are 200 px wide.", "Thumbnails are 320 px wide."),
    ("number", "The ingest queue is limited to 10,000 messages. When it is full, producers wait.", "The ingest queue is limited to 50,000 messages."),
    ("number", "An embedding costs $0.02 per 1,000 tokens.", "An embedding costs $0.10 per 1,000 tokens."),
    ("number", "Alerts fire above an error rate of 1 %.", "Alerts fire above an error rate of 5 %."),
    ("number", "retry.max_attempts = 3", "`retry.max_attempts` is 5"),
    ("version", "CI builds with Go 1.21.", "CI builds with Go 1.23."),
    ("version", "Base image: Debian 11", "Base image: Debian 12"),
    ("version", "Frontend uses React 17.", "Frontend uses React 19."),
    ("version", "Cluster runs Kubernetes 1.27", "The cluster runs on Kubernetes v1.30"),
    ("version", "protocol version: OpenSSL 1.1.1 is linked", "OpenSSL 3.0.8 is linked"),
    ("version", "We compile with Rust 1.70.", "Compile with Rust 1.82, please."),
    ("version", "Terraform 1.5 is what the pipeline uses.", "The pipeline uses Terraform 1.9."),
    ("value", "REDIS_URL=redis://cache-1:6379", "REDIS_URL=redis://cache-2:6379"),
    ("value", "worker_processes: 4", "worker_processes: 8"),
    ("value", "Artifacts are stored in `s3://builds`.", "Artifacts are stored in `gs://builds`."),
    ("value", "max_body_size: 10MB", "max_body_size: 50MB"),
    ("value", "tls_min_version = \"1.2\"", "tls_min_version = \"1.3\""),
    ("value", "CACHE_BACKEND=redis", "CACHE_BACKEND=memcached"),
    ("value", "The bucket for backups is `acme-backups`.", "The bucket for backups is `acme-archive`."),
    ("value", "WORKERS=4", "WORKERS: 8"),
    ("value", "{\"features\": {\"darkMode\": true}}", "{\"features\": {\"darkMode\": false}}"),
    ("value", "The config lives in `/etc/app.toml`.", "The config lives in `/opt/app/config.toml`."),
    ("negation", "We squash commits when merging.", "We don't squash commits when merging."),
    ("negation", "The mobile app caches images.", "The mobile app never caches images."),
    ("negation", "Backups are encrypted.", "Backups are unencrypted at the moment."),
    ("negation", "Admin API is public.", "The admin API is private."),
    ("negation", "Foreign keys are enforced in the reporting schema.", "Foreign keys are not enforced in the reporting schema."),
    ("negation", "Emails are sent synchronously.", "Emails are sent asynchronously by the worker."),
    ("negation", "Interns may merge to main.", "Interns may not merge to main."),
    ("negation", "Schema changes need approval from the DBA.", "Schema changes don't need approval from the DBA."),
    ("negation", "Tests hit the real payment provider.", "Tests never hit the real payment provider."),
    ("negation", "Autoscaling is enabled for the workers.", "Autoscaling is disabled for the workers since the incident."),
    ("negation", "Soft deletes are used for customers.", "Soft deletes are not used for customers."),
    ("negation", "The gateway validates tokens.", "The gateway doesn't validate tokens; the services do."),
    ("negation", "Force pushes are allowed on feature branches.", "Force pushes are forbidden on feature branches."),
    ("negation", "Events are delivered in order.", "Events are not delivered in order."),
    ("negation", "Invoices can be edited after they were sent.", "Invoices cannot be edited after they were sent."),
    ("negation", "The cache survives a restart.", "The cache doesn't survive a restart."),
    ("negation", "Contractors have access to production logs.", "Contractors no longer have access to production logs."),
    ("negation", "Uploads are scanned for viruses.", "Uploads aren't scanned for viruses."),
    ("negation", "Row-level security is disabled for reports.", "Row-level security is enabled for reports."),
    ("negation", "The SDK supports streaming.", "The SDK does not support streaming."),
    ("negation", "Feature flags must not be nested.", "Feature flags can be nested."),
)  # fmt: skip

HARMLESS: tuple[tuple[str, str], ...] = (
    ("The gateway timeout is 30 s.", "The gateway timeout is 30,000 ms."),
    ("Each worker gets 1 GB of memory.", "Each worker gets 1000 MB of memory."),
    ("Each worker gets 2 GB of memory.", "Each worker gets 2048 MiB of memory."),
    ("Read timeout of the API client is 30 s.", "Write timeout of the API client is 60 s."),
    ("In staging, the pool size of the API is 10.", "In production, the pool size of the API is 50."),
    ("The timeout of the gateway was raised from 30 s to 60 s.", "The timeout of the gateway is 60 s."),
    ("Previously the cache TTL of profiles was 300 s. The cache TTL of profiles is 600 s.", "The cache TTL of profiles is 600 s."),
    ("See line 42 of the config parser.", "See line 57 of the config parser."),
    ("Fixed the config parser in #512.", "Fixed the config parser in #519."),
    ("Meeting on the data model on 2026-03-01.", "Meeting on the data model on 2026-04-12."),
    ("The release is on 12 June.", "The release notes of the release are due on 3 June."),
    ("1. Stop the workers.\n2. Run the migration.", "1. Run the backup.\n2. Stop the workers.\n3. Run the migration."),
    ("34 % of the errors come from the proxy.", "12 % of the requests go through the proxy."),
    ("p95 of the search is 40 ms.", "p50 of the search is 12 ms."),
    ("The search took 31 ms on my laptop.", "The search took 29 ms on my laptop."),
    ("We need at least 2 reviewers per change.", "This change got 3 reviewers."),
    ("We keep between 10 and 20 connections open.", "We keep 15 connections open."),
    ("Would 60 s be better as the gateway timeout?", "The gateway timeout is 30 s."),
    ("We run on Python 3.11.", "We run on Python 3.11.9."),
    ("We require Python >=3.11.", "The image has Python 3.13."),
    ("Python 3.9 support was dropped.", "We run on Python 3.13."),
    ("We support Python 3.11, 3.12 and 3.13.", "We support Python 3.13."),
    ("The workers run Node 18.", "The database is Postgres 16."),
    ("pool_size=10", "pool_size = 10"),
    ("`timeout=30s`", '"timeout": "30000ms"'),
    ("[staging]\nPOOL_SIZE=10", "[production]\nPOOL_SIZE=20"),
    ("FLAG_X=1", "FLAG_X=true"),
    ("We retry reads.", "We never retry writes."),
    ("We retry writes if the key is idempotent.", "We never retry writes."),
    ("Don't log request bodies because of privacy.", "Never log request bodies."),
    ("The client doesn't depend on the server.", "The server depends on the client."),
    ("Exports are not only fast but complete.", "Exports are fast."),
    ("Why not cache the results?", "We cache the results."),
    ("The API answers with HTTP 429 beyond the limit.", "The API answers with HTTP 503 while it starts."),
    ("Use 4 workers on the small machine.", "Use 16 workers on the large machine."),
    ("The queue holds 10,000 messages.", "The queue holds 10000 messages."),
    ("The job handled 1,203 rows on Monday.", "The job handled 988 rows on Friday."),
    ("name: alice\nid: 12", "name: bob\nid: 13"),
    ("Host 10.0.0.1 runs the primary database.", "Host 10.0.0.2 runs the replica database."),
    ("We chose 30 s instead of 60 s for the gateway timeout.", "The gateway timeout is 30 s."),
    ("Poll interval is 5 s, poll timeout is 30 s.", "Poll timeout is 30 s, poll interval is 5 s."),
    ("Took 3 days to migrate 40 tables.", "Took 2 weeks to migrate 40 services."),
    ("Ann owns 3 services.", "Ben owns 5 services."),
    ("Run 112 had 3 failures.", "Run 113 had 5 failures."),
    ("We have 12 engineers in Berlin.", "We have 8 engineers in Lisbon."),
    ("Upgrade from Node 18 to Node 20 is done.", "We run Node 20."),
    ("Bug is in Django 4.1.", "We use Django 4.2."),
    ("Order 1234 failed with a timeout of 30 s.", "Order 9876 failed with a timeout of 60 s."),
    ("log_level: debug in dev", "log_level: info in prod"),
    ("We don't use Redis for sessions.", "We use Redis for caching."),
    ("Not all requests are logged.", "All requests are logged to S3 in production."),
    ("The parser can't handle tabs.", "The lexer can handle tabs."),
    ("No changes needed for the client.", "Changes needed for the server."),
    ("The index was 1.2 GB in May.", "The index is 2.3 GB in October."),
    ("Step 3: wait 10 min.", "Step 4: wait 20 min."),
    ("Costs rose by 12 % in Q1.", "Costs rose by 7 % in Q2."),
    ("Retry up to 5 times.", "We saw 3 retries in the log."),
    ("The limit is 10 MB for images.", "The limit is 100 MB for videos."),
    ("Timeout of the login page is 10 s", "Timeout of the search page is 20 s"),
    ("We do not deploy on Fridays.", "We deploy on Mondays."),
    ("The first attempt took 30 s.", "The second attempt took 5 s."),
    ("user_id=12 was blocked", "user_id=99 was blocked"),
    ("Disk usage is at 80 % on db1.", "Disk usage is at 35 % on db2."),
    ("`GET /users?limit=10`", "`GET /users?limit=50`"),
    ("version = 1.2.0", "version = 1.3.0"),
    ("We should not enable tracing before the upgrade.", "We should enable tracing after the upgrade."),
    ("The API pool has 10 connections.", "The worker pool has 40 connections."),
    ("We closed 14 tickets this sprint.", "We closed 9 tickets this sprint."),
    ("Migration 0042 adds an index.", "Migration 0043 adds a column."),
    ("Deploy took 12 min today.", "Deploy took 25 min yesterday."),
    ("Team A has 3 people on call, team B has 2.", "Team B has 2 people on call."),
    ("See RFC 7231, section 6.", "See RFC 9110, section 15."),
    ("Port 443 is open.", "Port 22 is closed."),
    ("We moved from Postgres 13 to Postgres 16.", "Postgres 16 is what we run."),
    ("Tests pass on Python 3.11 and 3.12.", "Python 3.12 runs in production."),
    ("Released cortex 1.4.0 today.", "Released cortex 1.5.0 today."),
    ("The bug appears with numpy 2.0.1.", "We pin numpy 1.26.4."),
    ("DEBUG=1 python run.py", "DEBUG=0 gunicorn app"),
    ("start: 10:00\nend: 11:00", "start: 14:00\nend: 15:30"),
    ("Retries: 3 for reads", "Retries: 0 for writes"),
    ("Do not restart the primary during a backup.", "Restart the replica during a backup."),
    ("It's not slow because of the network.", "It's slow because of the disk."),
    ("No tests for the exporter yet.", "Added tests for the exporter."),
    ("Without the index the query takes 4 s.", "With the index the query takes 20 ms."),
    ("If tracing is enabled, requests are slower by 3 %.", "Tracing is disabled."),
    ("I don't think we need Kafka.", "We need Kafka for the audit log."),
    ("The old API returns 50 rows per page.", "The new API returns 100 rows per page."),
    ("EU customers keep data for 30 days.", "US customers keep data for 90 days."),
    ("Room 3 is booked for 2 hours.", "Room 5 is booked for 1 hour."),
    ("Ann reviewed 4 drafts.", "Ann reviewed 6 drafts last week."),
    ("The disk is 80 % full.", "The disk was 60 % full in May."),
    ("https://host/x?page=2&size=50", "https://host/x?page=3&size=20"),
    ("The limit for guests is 10 requests per minute.", "The limit for members is 100 requests per minute."),
    ("Coverage went from 71 % to 78 %.", "Coverage is 78 %."),
    ("The scheduler wakes up every 5 minutes.", "The scheduler wakes up every 300 s."),
    ("Chapter 3 has 12 pages.", "Chapter 4 has 20 pages."),
    ("Latency dropped from 80 ms to 35 ms after the index.", "Latency is about 36 ms."),
    ("A cold start takes 4 s.", "A warm start takes 200 ms."),
    ("Ben is away for 2 weeks.", "Ann is away for 3 weeks."),
    ("Small plan: 5 users. Large plan: 50 users.", "Large plan: 50 users. Small plan: 5 users."),
    ("Chrome 118 shows the bug.", "Chrome 121 doesn't show the bug."),
    ("Java 8 reached its end of life.", "We run Java 21."),
    ("pip install numpy==1.26.4 failed.", "pip install pandas==2.2.0 worked."),
    ("color: red;\nwidth: 10px", "color: blue;\nheight: 20px"),
    ("TODO: fix", "TODO: test"),
    ("curl -d 'limit=5' host", "curl -d 'offset=10' host"),
    ("We can't reproduce it on Linux.", "We can reproduce it on Windows."),
    ("The test isn't flaky any more.", "The test was flaky in May."),
    ("Nobody uses the old endpoint.", "The mobile app uses the new endpoint."),
    ("Don't use threads in the parser.", "Use threads in the loader."),
    ("Not every index is rebuilt.", "Every index is checked."),
    ("We do not store card numbers.", "We store card tokens."),
    ("The importer skips rows without an id.", "The importer keeps rows with an id."),
    ("Service A retries 3 times.", "Service B retries 5 times."),
    ("Three of the nodes are in Frankfurt.", "Five of the nodes are in Dublin."),
    ("Batch 7 imported 500 users.", "Batch 8 imported 700 users."),
    ("Average response is 120 ms.", "Maximum response is 900 ms."),
    ("In 2024 we had 3 outages.", "In 2025 we had 1 outage."),
    ("At 09:40 the queue had 200 messages.", "At 10:15 the queue had 3 messages."),
    ("Version 2 of the API is stable.", "Version 3 of the API is unstable."),
)  # fmt: skip


def test_only_contradicting_texts_are_reported():
    found = [(kind, a, b, differences(a, b)) for kind, a, b in CONFLICTING]
    missed = [
        (kind, a, b, got)
        for kind, a, b, got in found
        if not any(difference.kind == kind for difference in got)
    ]
    alarms = [(a, b, got) for a, b in HARMLESS if (got := differences(a, b))]
    for miss in missed:
        print("missed", *miss, sep="\n    ")
    for alarm in alarms:
        print("false alarm", *alarm, sep="\n    ")
    hits = len(CONFLICTING) - len(missed)
    recall, precision = hits / len(CONFLICTING), hits / (hits + len(alarms))
    print(f"recall {recall:.3f}, precision {precision:.3f}")
    assert recall >= 0.85 and precision >= 0.9


def test_comparison_is_symmetric():
    for _, a, b in CONFLICTING:
        assert [
            (difference.kind, difference.right, difference.left) for difference in differences(b, a)
        ] == [
            (difference.kind, difference.left, difference.right) for difference in differences(a, b)
        ]


def test_difference_names_its_subject_and_both_values():
    assert differences(
        "The request timeout of the gateway is 30 seconds.", "Gateway: request timeout is 45 s."
    ) == (Difference("number", "request timeout gateway", "30 seconds", "45 s"),)
    assert differences("pool_size=10", "pool_size: 20") == (
        Difference("value", "pool_size", "10", "20"),
    )
    assert differences("We run on Python 3.11.", "We run on Python 3.13.") == (
        Difference("version", "python", "Python 3.11", "Python 3.13"),
    )
    assert differences("we retry writes", "we never retry writes") == (
        Difference("negation", "retry writes", "we retry writes", "we never retry writes"),
    )


SAME = (
    ("Postgres pool size", "Pool size of Postgres"),
    ("Postgres pool size", "PostgreSQL pool sizes"),
    ("ADR 12: Pool size of Postgres", "Postgres pool size"),
    ("Retry policy for payment webhooks", "Payment webhooks: retries"),
    ("How we deploy to production", "Deployment to prod"),
    ("Choosing the session store", "Session store decision"),
    ("Use Python 3.11 in images", "Use Python 3.13 in images"),
    ("Gateway timeout is 30 s", "Gateway timeout is 60 s"),
    ("authConfig", "Auth configuration"),
    ("データベースの移行計画", "データベースの移行計画"),
)  # fmt: skip

OTHER = (
    ("Postgres pool size", "Redis pool size"),
    ("Postgres connection pool size", "Redis connection pool size"),
    ("Read timeout of the client", "Write timeout of the client"),
    ("Sprint 12 retrospective", "Sprint 13 retrospective"),
    ("Plan for release 1.2", "Plan for release 1.3"),
    ("Incident of 2026-01-03", "Incident of 2026-02-11"),
    ("Roadmap 2025", "Roadmap 2026"),
    ("Timeouts", "Timeouts of the payment gateway in checkout"),
    ("", ""),
    ("The", "A"),
)  # fmt: skip


@pytest.mark.parametrize(("a", "b"), SAME)
def test_titles_of_the_same_subject_match(a: str, b: str):
    assert same_subject(a, b) and same_subject(b, a)


@pytest.mark.parametrize(("a", "b"), OTHER)
def test_titles_of_different_subjects_do_not_match(a: str, b: str):
    assert not same_subject(a, b) and not same_subject(b, a)


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_two_texts_can_be_compared(a: str, b: str):
    assert isinstance(same_subject(a, b), bool)
    for difference in differences(a, b):
        assert (
            difference.kind in ("number", "version", "value", "negation")
            and difference.left != difference.right
        )


@given(st.sampled_from([text for _, *pair in CONFLICTING for text in pair]), st.text(max_size=50))
def test_a_text_never_contradicts_itself(text: str, more: str):
    assert differences(f"{text}\n\n{more}", f"{text}\n\n{more}") == ()


LONG = " ".join(f"The pool size of service{number} is {number} and we never retry writes of kind{number} with tool{number} {number}.{number}.0." for number in range(2_000))  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [LONG, LONG.replace("1", "2"), "a" * 100_000, "1" * 100_000, "1," * 50_000, "1.2" * 33_000, "a=" * 50_000, "a:`" * 33_000, '"' * 100_000,
     "not " * 25_000, "is ` " * 20_000, "for x" * 20_000, " " * 100_000, "x " * 50_000, "the size is 3 s. " * 6_000, "a.b-" * 25_000, "$1_" * 33_000,
     "v1.2.3 " * 14_000, "foo 1.2.3 " * 10_000, "pool_size=1 " * 8_000, "pool_size=1\n" * 8_000, "- we never retry writes\n" * 4_000, "instead of the " * 6_000],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_any_text_is_compared_in_bounded_time(text: str):
    started = time.process_time()
    differences(text[:100_000], (text.swapcase() + "!")[:100_000])
    differences(text[:100_000], LONG[:100_000])
    took = (time.process_time() - started) / 2
    print(f"{took * 1000:.0f} ms")
    assert took < 0.6
