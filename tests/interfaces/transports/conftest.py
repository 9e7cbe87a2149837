"""The test family served over HTTP, without a token and with one."""

import pytest


@pytest.fixture(scope="module")
def server():
    from protocol.http_client import serving_family

    with serving_family() as server:
        yield server


@pytest.fixture(scope="module")
def guarded():
    from protocol.http_client import TOKEN, serving_family

    with serving_family("127.0.0.1", TOKEN) as server:
        yield server
