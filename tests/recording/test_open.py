"""ST-1: `Session.open` returns one session of a pair, however many processes or threads open it at once."""

import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from wakelog.errors import Conflict
from wakelog.forking import fork
from wakelog.session import Session
from wakelog.stores import open_store
from wakelog.stores.memory import MemoryStore

PROCESSES = 3
ROUNDS = 25


@pytest.fixture(params=["files", "sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return f"{tmp_path}/sessions" if request.param == "files" else f"sqlite:{tmp_path}/s.db"


def open_in_rounds(url, number, barrier, answers):
    """Open two sessions in each round: of a new pair, and of a pair whose latest session is terminated."""
    store = open_store(url)
    for turn in range(ROUNDS):
        barrier.wait()
        fresh = Session.open(store, agent="bot", sender=f"new{turn}")
        again = Session.open(store, agent="bot", sender="ended")
        answers.put((turn, fresh.name, again.name))
        barrier.wait()
        if number == 0:
            again.end()
    store.close()


def test_processes_that_open_one_pair_at_once(url):
    """ST-1: two processes never make a silent branch, neither from nothing nor after a terminated session."""
    spawn = multiprocessing.get_context("spawn")
    barrier, answers = spawn.Barrier(PROCESSES), spawn.Queue()
    children = [
        spawn.Process(target=open_in_rounds, args=(url, number, barrier, answers), daemon=True)
        for number in range(PROCESSES)
    ]
    for child in children:
        child.start()
    opened = [answers.get() for _ in range(PROCESSES * ROUNDS)]
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * PROCESSES
    assert {turn: {each[1:] for each in opened if each[0] == turn} for turn in range(ROUNDS)} == {
        turn: {(f"bot_new{turn}_1", f"bot_ended_{turn + 1}")} for turn in range(ROUNDS)
    }
    store = open_store(url)
    assert len([*store.sessions()]) == 2 * ROUNDS
    store.close()


def test_threads_that_open_one_pair_at_once(store):
    """ST-1: threads that share a store object get one session too."""
    barrier = threading.Barrier(4)

    def opened(_: int) -> list[str]:
        names = []
        for turn in range(ROUNDS):
            barrier.wait()
            names.append(Session.open(store, agent="bot", sender=f"s{turn}").name)
        return names

    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(opened, range(4))]
    assert found == [[f"bot_s{turn}_1" for turn in range(ROUNDS)]] * 4
    assert len([*store.sessions()]) == ROUNDS


class Overtaken(MemoryStore):
    """A store in which another process creates sessions of the pair while `open` is between looking and creating."""

    def __init__(self, *others) -> None:
        super().__init__()
        self.others = list(others)

    def create(self, session, agent, sender, first_line, more=()):
        if self.others:
            self.others.pop(0)(self)
        return super().create(session, agent, sender, first_line, more)


def test_a_session_that_another_process_creates_meanwhile_is_opened():
    """ST-1: the session is found although it was not there when `open` looked."""
    store = Overtaken(lambda store: Session.create(store, agent="bot", sender="ada", title="theirs"))
    session = Session.open(store, agent="bot", sender="ada", title="mine")
    assert (session.name, session.tree.header.title) == ("bot_ada_1", "theirs")
    assert len([*store.sessions()]) == 1


def test_a_fork_that_is_created_meanwhile_is_no_chat():
    """ST-1: an unused fork takes a number and is not the latest chat; a session of its own is created after it."""
    store = Overtaken()
    terminated = Session.open(store, agent="bot", sender="ada")
    terminated.end()
    store.others = [lambda _: fork(terminated), lambda _: fork(terminated)]
    assert Session.open(store, agent="bot", sender="ada").name == "bot_ada_4"


def test_errors_of_creation_are_raised():
    """An error of the store is not taken for another process that was faster."""
    store = Overtaken(refuse)
    with pytest.raises(Conflict):
        Session.open(store, agent="bot")
    assert [*store.sessions()] == []


def refuse(_):
    raise Conflict("not now")


@pytest.mark.parametrize("exists", [False, True])
def test_an_unknown_argument_is_refused_whether_the_session_exists_or_not(store, exists):
    if exists:
        Session.open(store, agent="bot")
    with pytest.raises(TypeError, match="titel"):
        Session.open(store, agent="bot", titel="mine")  # type: ignore[call-arg]
    assert len([*store.sessions()]) == exists


@pytest.mark.parametrize("kind", ["files", "sqlite", "postgresql"])
def test_a_refused_number_leaves_nothing_behind(kind, request, tmp_path):
    """Law 9: a session that is not created has no file, no link and no row."""
    place = f"{tmp_path}/sessions"
    urls = {"files": place, "sqlite": f"sqlite:{tmp_path}/s.db"}
    store = open_store(urls.get(kind) or request.getfixturevalue("postgres_url"))
    other = open_store(urls.get(kind) or request.getfixturevalue("postgres_url"))
    Session.open(store, agent="bot", sender="ada").end()
    Session.open(other, agent="bot", sender="ada").end()
    # The first store object has cached the number of its own session.
    third = Session.open(store, agent="bot", sender="ada")
    assert third.name == "bot_ada_3"
    assert len([*store.sessions()]) == 3
    if kind == "files":
        assert len(os.listdir(f"{place}/by-id")) == 3
        assert not [name for name in os.listdir(place) if name.startswith(".new-")]
    store.close()
    other.close()
