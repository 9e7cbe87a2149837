"""Addresses of a Core's database, as people type them: what is wrong is told, a password never."""

import pytest

from cortex.interfaces.team_server.commands.options import folder_of, shown

pytestmark = pytest.mark.usefixtures("isolated")


@pytest.mark.parametrize(
    "url",
    [
        # The database's library looks for it behind the first @
        "postgresql://me:geheim@wort@localhost:1/db",
        "postgresql://me:geheim/wort@localhost:1/db",
        # Python's finds it strange, and says all of it
        "postgresql://me:geheim\N{ACCOUNT OF}wort@localhost:1/db",
        "postgresql://me:geheim[wort@localhost:1/db",
        "mysql://me:geheim\\wort@localhost:1/db",  # as it is quoted
        "host=localhost port=1 user=me password=geheimwort",
    ],
)
def test_no_part_of_a_password_is_shown_whatever_is_in_it(cortex, monkeypatch, url):
    monkeypatch.setenv("CORTEX_CORE_DB", url)
    code, out, err = cortex("core", "migrate")
    assert code in (1, 2) and "unexpectedly" not in err
    assert "geheim" not in out + err and "wort" not in out + err


def test_a_password_that_looks_like_a_part_of_an_address_is_one(database, cortex, monkeypatch):
    url = database.replace("://postgres:@", "://postgres:geheim[wort@")
    monkeypatch.setenv("CORTEX_CORE_DB", url)
    assert cortex("core", "init", "--name", "root")[0] == 0
    code, out, err = cortex("core", "migrate")
    assert code == 0, err
    assert "geheim" not in out + err and shown(url) in out


@pytest.mark.parametrize("url", ["sqlite://team/records", "sqlite:team", "sqlite:///"])
def test_an_address_that_names_no_directory_is_refused_and_makes_none(
    cortex, tmp_path, monkeypatch, url
):
    monkeypatch.chdir(tmp_path)
    assert folder_of(url) is None
    code, _, err = cortex("core", "init", "--db", url)
    assert code == 2 and "sqlite:///DIRECTORY" in err and list(tmp_path.iterdir()) == []


def test_an_address_that_is_none_is_told_with_where_it_came_from(cortex, monkeypatch):
    assert "--db: that is no address" in cortex("core", "migrate", "--db", "foo")[2]
    monkeypatch.setenv("CORTEX_CORE_DB", "foo")
    assert "CORTEX_CORE_DB: that is no address" in cortex("core", "migrate")[2]


def test_what_a_database_says_in_lines_is_told_in_one(cortex):
    pytest.importorskip("psycopg")
    code, _, err = cortex("core", "migrate", "--db", "postgresql://me@127.0.0.1:1/db")
    assert code == 1 and "refused" in err and "\\n" not in err and "\\t" not in err


@pytest.mark.parametrize("place", ["file", "file/core"])
def test_a_directory_that_can_t_be_made_is_named(cortex, tmp_path, place):
    (tmp_path / "file").write_text("", encoding="utf-8")
    code, _, err = cortex("core", "init", "--db", f"sqlite:///{tmp_path / place}")
    assert code == 1 and "PERMISSION_DENIED" in err and str(tmp_path / place) in err


def test_whoever_has_a_damaged_database_is_told_to_restore_a_backup(cortex, tmp_path):
    (tmp_path / "cortex.db").write_bytes(b"something else " * 500)
    code, _, err = cortex("core", "migrate", "--db", f"sqlite:///{tmp_path}")
    assert (
        code == 1
        and "STORE_CORRUPT" in err
        and "cortex core restore" in err
        and "cortex index" not in err
    )


def test_only_who_makes_or_restores_a_core_makes_tables(database, cortex, tmp_path, monkeypatch):
    """A backup of the wrong database would be one of nothing."""
    import psycopg

    monkeypatch.setenv("CORTEX_CORE_DB", database)
    for words in (
        ["migrate"],
        ["token", "list"],
        ["renew"],
        ["serve"],
        ["backup", str(tmp_path / "core.backup")],
    ):
        code, _, err = cortex("core", *words)
        assert code == 1 and "there is no Core at" in err and "cortex core init" in err, words
    assert list(tmp_path.iterdir()) == []
    with psycopg.connect(database) as connection:
        assert (
            connection.execute("SELECT 1 FROM pg_tables WHERE schemaname = 'public'").fetchone()
            is None
        )
    assert cortex("core", "init", "--name", "root")[0] == cortex("core", "migrate")[0] == 0
