"""Commands over a server that is away for a moment, or for good (ST-6, DESIGN 8)."""

from wakelog.stores import retrying

DEAD = "postgresql://user:secret@127.0.0.1:1/none"


def test_a_dead_server_is_one_line_and_a_code(shell, monkeypatch):
    """What is tried is said, then what failed and what to do; no password, and no traceback."""
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
    """The kind tells programs that the same command may succeed later."""
    monkeypatch.setattr(retrying, "RETRY_S", 0.2)
    answer = shell("append", "crab_user_1", "Hello", "--store", DEAD, "--json")
    assert answer.code == 1
    assert '"kind":"unavailable"' in answer.err.splitlines()[-1].replace(" ", "")


def test_an_append_rides_out_a_restart(shell, own_postgres, monkeypatch):
    """Law 4: the server is away when the command begins, and back when it has said so."""
    url = own_postgres.new_database()
    # How long a start takes on a busy machine is no matter of right or wrong.
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
