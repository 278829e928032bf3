"""Commands over a server that is down for a moment, or for good (ST-6)."""

from wakelog.stores import retrying

DEAD = "postgresql://user:secret@127.0.0.1:1/none"


def test_a_dead_server_is_one_line_and_a_code(shell, monkeypatch):
    """The retries are reported, then what failed and what to do; no password, and no traceback."""
    monkeypatch.setattr(retrying, "RETRY_S", 0.2)
    answer = shell("append", "crab_user_1", "Hello", "--store", DEAD)
    assert answer.code == 1
    notice, error = answer.err.splitlines()
    assert notice.startswith(
        "wakelog: cannot connect to PostgreSQL at 127.0.0.1:1: Connection refused; trying again for"
    )
    assert error.startswith(
        "wakelog: cannot connect to PostgreSQL at 127.0.0.1:1: Connection refused; check host and port"
    )
    assert "secret" not in answer.err


def test_a_dead_server_in_json(shell, monkeypatch):
    """The kind says that the same command may succeed later."""
    monkeypatch.setattr(retrying, "RETRY_S", 0.2)
    answer = shell("append", "crab_user_1", "Hello", "--store", DEAD, "--json")
    assert answer.code == 1
    assert '"kind":"unavailable"' in answer.err.splitlines()[-1].replace(" ", "")


def test_an_append_survives_a_restart_of_the_server(shell, own_postgres, monkeypatch):
    """Law 4: the server is down when the command begins, and up again after the first notice."""
    url = own_postgres.new_database()
    # No result depends on how long a start takes on a busy machine.
    monkeypatch.setattr(retrying, "RETRY_S", 100.0)
    name = shell("new", "--store", url).out.strip()
    told = []

    def note(text):
        told.append(text)
        if not own_postgres.running():
            own_postgres.start()

    monkeypatch.setattr("wakelog.app.stores.notify", note)
    own_postgres.stop(immediate=True)
    answer = shell("append", name, "Hello", "--store", url)
    assert (answer.code, len(told)) == (0, 2), answer.err
    assert "trying again" in told[0]
    assert shell("show", name, "--store", url, "--json").raw.count(b'"Hello"') == 1
