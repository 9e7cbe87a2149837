"""One small repository and one server on it for all tests of the code family that change neither."""

import pytest

from protocol.code_server import CodeServer, make_repository


@pytest.fixture(scope="session")
def repository(tmp_path_factory, strangers_environment):
    return make_repository(tmp_path_factory.mktemp("code") / "shop")


@pytest.fixture(scope="session")
def running(repository):
    with CodeServer(repository) as server:
        server.initialize()
        server.wait_until_ready()
        yield server


@pytest.fixture
def server(running):
    running.aside.clear()
    yield running
    assert running.garbage == []
