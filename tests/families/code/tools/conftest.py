"""A folder of small modules for tests of the code family in this process."""

import pytest

from protocol.code_server import make_repository

MANY = {
    f"src/m{number:03}.py": f"def function_{number}():\n    return {number}\n"
    for number in range(30)
}


@pytest.fixture
def many(tmp_path):
    return make_repository(tmp_path / "many", MANY, git=False)
