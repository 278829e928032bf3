"""VIEW-7: passages of earlier sessions of the same agent, sender and folder, and of no others."""

import asyncio
import contextlib
import threading

import pytest

from tests.patience import PATIENCE_S
from wakelog.hooks.builtin import MemoryHook, search_words
from wakelog.ports.runtime import HookContext
from wakelog.session import Session
from wakelog.stores import open_catalog, open_store


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    url = str(tmp_path / "store")
    store = open_store(url)

    @contextlib.contextmanager
    def catalog():
        with contextlib.closing(open_catalog(url, store)) as opened:
            yield opened

    yield store, catalog
    store.close()


def talk(store, text, *, agent="crab", sender="me", cwd="/repo"):
    session = Session.create(store, agent=agent, sender=sender, cwd=cwd)
    session.say(text)
    return session.name


def recalled(catalog, prompt, *, session="new", cwd="/repo", agent="crab", sender="me"):
    return asyncio.run(MemoryHook(catalog).before_run(HookContext(session, "u", agent, sender, cwd, prompt, 0)))


def test_passages_with_rare_words_come_first(place):
    """The passage with more of the prompt's words comes before one with fewer; each has its address."""
    store, catalog = place
    one = talk(store, "The scheduler deadlocks when the queue is empty")
    two = talk(store, "The scheduler is written in Python")
    text = recalled(catalog, "Why does the scheduler show deadlocks?")
    lines = text.splitlines()
    assert lines[0] == "<earlier-sessions>"
    assert f"- {one}:" in lines[1]
    assert "scheduler deadlocks when" in lines[1]
    assert f"- {two}:" in lines[2]


def test_other_sessions_are_not_recalled(place):
    """Neither of another agent, another sender or another project, nor this session itself."""
    store, catalog = place
    own = talk(store, "The scheduler is slow")
    talk(store, "The scheduler is theirs", agent="other")
    talk(store, "The scheduler is hers", sender="her")
    talk(store, "The scheduler is elsewhere", cwd="/other")
    assert recalled(catalog, "scheduler?", session=own) == ""
    assert recalled(catalog, "scheduler?", cwd="") == ""
    talk(store, "The scheduler is nowhere", cwd="")
    assert recalled(catalog, "scheduler?", cwd="").count("\n- ") == 1


@pytest.mark.parametrize(
    ("sender", "other"),
    [('a"b', "a b"), ("", "me"), ("a\0b", "a b"), (" ", "me"), ('"', "me"), ("x" * 3_000, "me"), ("TG 1", "tg 1")],
)
def test_only_the_exact_pair_is_recalled(place, sender, other):
    """ST-1: a sender that a query cannot express exactly never gets the messages of another one."""
    store, catalog = place
    talk(store, "The scheduler is theirs", sender=other)
    talk(store, "The scheduler is theirs", agent=other, sender="me")
    assert recalled(catalog, "scheduler?", sender=sender) == ""
    assert recalled(catalog, "scheduler?", agent=sender) == ""


def test_the_event_loop_runs_during_a_search(place):
    """Searching is synchronous and may take long; it does not block the event loop."""
    store, catalog = place
    talk(store, "The scheduler is slow", cwd="")
    looking, let_go = threading.Event(), threading.Event()

    @contextlib.contextmanager
    def slow():
        looking.set()
        assert let_go.wait(PATIENCE_S)
        with catalog() as opened:
            yield opened

    async def meanwhile():
        recall = asyncio.ensure_future(
            MemoryHook(slow).before_run(HookContext("new", "u", "crab", "me", "", "scheduler", 0))
        )
        await asyncio.to_thread(looking.wait, 60)
        let_go.set()
        return await recall

    assert "scheduler is slow" in asyncio.run(meanwhile())


@pytest.mark.parametrize("prompt", ["", "a b c", '"" -x agent:y OR * (', "\x00\x1b[2J", "« » {} \\ %"])
def test_hostile_prompts_are_harmless(place, prompt):
    """Law 13: a prompt is words to search for and nothing else."""
    store, catalog = place
    talk(store, "Something was said")
    assert isinstance(recalled(catalog, prompt, cwd='/a "b'), str)


def test_the_longest_words_are_searched_for():
    """Each word once, short ones and numbers left out, at most six."""
    assert search_words("The the deadlock is 12345 in scheduler.py of a Deadlock") == ["scheduler", "deadlock"]
    assert len(search_words(" ".join(f"{letter}wordword" for letter in "abcdefghij"))) == 6
