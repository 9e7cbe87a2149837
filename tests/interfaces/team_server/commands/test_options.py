"""Addresses of a Core's database: errors say what is wrong, and never show a password."""

import pytest

from cortex.interfaces.team_server.commands import options
from cortex.interfaces.team_server.commands.options import folder_of, index_folder, shown
from families.team.commands.command_answers import answer

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
def test_no_part_of_an_odd_password_is_shown(cortex, monkeypatch, url):
    monkeypatch.setenv("CORTEX_CORE_DB", url)
    code, out, err = cortex("core", "migrate")
    assert code in (1, 2) and "unexpectedly" not in err
    assert "geheim" not in out + err and "wort" not in out + err


def test_password_that_looks_like_an_address_part_works(database, cortex, monkeypatch):
    url = database.replace("://postgres:@", "://postgres:geheim[wort@")
    monkeypatch.setenv("CORTEX_CORE_DB", url)
    assert cortex("core", "init", "--name", "root")[0] == 0
    code, out, err = cortex("core", "migrate")
    assert code == 0, err
    assert "geheim" not in out + err and shown(url) in out


@pytest.mark.parametrize("url", ["sqlite://team/records", "sqlite:team", "sqlite:///"])
def test_sqlite_address_without_a_directory_is_refused(cortex, tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    assert folder_of(url) is None
    code, _, err = cortex("core", "init", "--db", url)
    assert code == 2 and "sqlite:///DIRECTORY" in err and list(tmp_path.iterdir()) == []


def test_invalid_address_is_reported_with_its_source(cortex, monkeypatch):
    assert "--db: that is no address" in cortex("core", "migrate", "--db", "foo")[2]
    monkeypatch.setenv("CORTEX_CORE_DB", "foo")
    assert "CORTEX_CORE_DB: that is no address" in cortex("core", "migrate")[2]


def test_database_error_of_several_lines_is_shown_in_one(cortex):
    pytest.importorskip("psycopg")
    code, _, err = cortex("core", "migrate", "--db", "postgresql://me@127.0.0.1:1/db")
    assert code == 1 and "refused" in err and "\\n" not in err and "\\t" not in err


@pytest.mark.parametrize("place", ["file", "file/core"])
def test_directory_that_cannot_be_created_is_named(cortex, tmp_path, place):
    (tmp_path / "file").write_text("", encoding="utf-8")
    code, _, err = cortex("core", "init", "--db", f"sqlite:///{tmp_path / place}")
    assert code == 1 and "PERMISSION_DENIED" in err and str(tmp_path / place) in err


def test_damaged_database_suggests_core_restore(cortex, tmp_path):
    (tmp_path / "cortex.db").write_bytes(b"something else " * 500)
    code, _, err = cortex("core", "migrate", "--db", f"sqlite:///{tmp_path}")
    assert (
        code == 1
        and "STORE_CORRUPT" in err
        and "cortex core restore" in err
        and "cortex index" not in err
    )


def test_only_core_init_creates_tables(database, cortex, tmp_path, monkeypatch):
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


@pytest.mark.parametrize(
    "url",
    [
        "http://me:ge%21heim@x",
        "postgresql://me:ge%21heim@[x/db",
        "postgresql://me:ge%21heim@localhost:no/db",
        "me:ge%21heim@x",
    ],
)
def test_password_in_an_invalid_address_is_never_shown(cortex, monkeypatch, url):
    monkeypatch.setenv("CORTEX_CORE_DB", url)
    code, out, err = cortex("core", "migrate")
    assert code in (1, 2) and err
    assert "heim" not in out + err + shown(url)


def test_database_comes_from_the_option_the_environment_or_the_home(
    isolated, monkeypatch, tmp_path
):
    assert folder_of(options.database("")) == isolated.cortex / "core"
    monkeypatch.setenv("CORTEX_CORE_DB", "postgresql://x/y")
    assert options.database("") == "postgresql://x/y" and folder_of(options.database("")) is None
    assert options.database("sqlite:///z") == "sqlite:///z"
    assert index_folder(options.database(""), tmp_path) == tmp_path
    assert index_folder(options.database(""), None) == isolated.cortex / "core-replica"


def test_sqlite_database_is_given_alike_to_every_command(cortex, tmp_path):
    where = ("--db", f"sqlite:///{tmp_path / 'team'}")
    answer(cortex, "core", "init", "--name", "root", *where)
    assert answer(cortex, "core", "principal", "list", *where)["principals"][0]["name"] == "root"
    assert answer(cortex, "core", "migrate", *where)["principals"] == 1
    code, _, err = cortex("core", "serve", *where, "--data", tmp_path)
    assert code == 2 and "--db sqlite:///" in err
