"""`chat --pick`: the list opens at once with any number of sessions, and reads a log only for what is displayed."""

import contextlib
import fcntl
import os
import sqlite3

import psycopg
import pytest

from tests.cli.chat.inspection import READY
from wakelog.cli.chat.picker import last_message
from wakelog.cli.chat.session_list import ReadProgress, SessionList, matches
from wakelog.forking import fork
from wakelog.log.codec import encode
from wakelog.log.entry import Origin
from wakelog.log.entry import SessionHeader as Begun
from wakelog.ports.catalogs import SessionRow
from wakelog.stores.catalog.index import index_path
from wakelog.stores.memory import MemoryStore
from wakelog.testing.builders import SessionBuilder

MANY = 10_000


def row(number, **more):
    said = {"title": f"Session {number}", "prompt": "", "state": "idle", "model": "demo", "cwd": "/work", **more}
    return SessionRow(
        id=f"i{number}", name=f"crab_user_{number}", agent="crab", sender="user", updated="2026-01-01T00:00:00.000Z",
        entries=1, created="", messages=1, size=1, number=number, archived=False, damage=0, origin=None, attached=False,
        uptime=0.0, unknown_outcomes=0,
        cursor=str(number), **said,
    )  # fmt: skip


def listed(count, *, is_over=True, **more):
    return ReadProgress([row(number) for number in range(count)], is_complete=is_over, **more)


def picking(*listings, height=15):
    made = SessionList(height)
    for one in listings:
        made.update(one)
    return made


def test_filtering_examines_only_the_visible_rows(monkeypatch):
    """With ten thousand sessions the work is that of one window."""
    looked = []

    def counting_matches(row, text):
        looked.append(row)
        return matches(row, text)

    monkeypatch.setattr("wakelog.cli.chat.session_list.matches", counting_matches)
    list_ = picking(listed(MANY))
    assert [found.name for found in list_.window[1]] == [f"crab_user_{number}" for number in range(15)]
    assert len(looked) == 15
    list_.move(40)
    assert (list_.chosen_row.name, len(looked)) == ("crab_user_40", 55)
    list_.set_filter("SESSION 7")
    assert all("7" in found.title for found in list_.window[1])
    assert len(looked) < 200
    list_.move(1 << 40)
    assert list_.chosen_row.name == "crab_user_9997"
    list_.set_filter("session 9999")
    assert [found.name for found in list_.window[1]] == ["crab_user_9999"]
    list_.set_filter("")
    assert list_.chosen_row.name == "crab_user_0"


def test_choosing_stays_within_the_list():
    list_ = picking(listed(3))
    list_.move(-5)
    assert list_.chosen_row.name == "crab_user_0"
    list_.move(50)
    assert list_.chosen_row.name == "crab_user_2"
    list_.set_filter("nothing like it")
    list_.move(1)
    assert (list_.chosen_row, list_.window) == (None, (0, []))


# ── while rows come in ───────────────────────────────────────────────────────────────────────────


def test_the_choice_stays_when_rows_are_added():
    list_ = picking(ReadProgress([row(5), row(6)]))
    list_.move(1)
    list_.update(listed(50, is_over=False))
    assert (list_.chosen_row.name, list_.chosen) == ("crab_user_6", 6)
    list_.update(ReadProgress([row(1)], is_complete=True))
    assert list_.chosen_row.name == "crab_user_1"


def test_without_a_choice_the_first_row_is_chosen():
    list_ = picking(ReadProgress([row(5), row(6)]), listed(50))
    assert list_.chosen_row.name == "crab_user_0"
    list_.move(3)
    list_.set_filter("7")
    list_.update(listed(60))
    assert list_.chosen_row.name == "crab_user_7"


def test_enter_opens_the_chosen_row():
    assert picking(ReadProgress([row(5)])).choose().name == "crab_user_5"
    assert picking(ReadProgress([row(5)])).delayed_choice is None


def test_enter_before_any_row_waits_for_all_rows():
    list_ = picking()
    list_.set_filter("session 3")
    assert list_.choose() is None
    list_.update(ReadProgress([row(30)], 1, 2))
    partly_read = list_.delayed_choice
    list_.update(listed(40))
    fully_read = list_.delayed_choice
    assert partly_read is None
    assert fully_read is not None
    assert fully_read.name == "crab_user_3"


@pytest.mark.parametrize("other", [lambda list_: list_.set_filter("session"), lambda list_: list_.move(1)])
def test_another_key_cancels_a_waiting_enter(other):
    list_ = picking()
    list_.choose()
    other(list_)
    list_.update(listed(4))
    assert (list_.delayed_choice, list_.chosen_row.name) == (None, "crab_user_0")


def test_enter_without_rows_does_nothing():
    list_ = picking(listed(0))
    assert list_.choose() is None
    list_.update(listed(4))
    assert list_.delayed_choice is None


@pytest.mark.parametrize(
    ("text", "fit"),
    [
        ("", True),
        ("PARSER", True),
        ("parser idle", True),
        ("parser lexer", False),
        ("/work", True),
        ("crab_user_7", True),
    ],
)
def test_the_number_of_rows_that_fit(text, fit):
    assert matches(row(7, title="The parser"), text) is fit


def test_the_last_message_of_a_session():
    """Of either side; other entries are skipped."""
    story = SessionBuilder()
    assert last_message(story.store, story.session.name) == ""
    story.user("A question")
    assert last_message(story.store, story.session.name) == "you: A question"
    reply = story.reply("An answer", calls=[("t", "read", {})])
    story.result(reply, "t")
    story.session.rename("x")
    assert last_message(story.store, story.session.name) == "agent: An answer"


def test_the_last_message_of_a_fork():
    """A fork without messages shows what it inherits, and not what its parent got later."""
    story = SessionBuilder()
    story.user("A question")
    story.reply("An answer")
    child = fork(story.session)
    story.user("Later")
    assert last_message(story.store, child.name) == "agent: An answer"
    child.say("Its own")
    assert last_message(story.store, child.name) == "you: Its own"


@pytest.mark.parametrize(
    "origin", [Origin(session="x", entry="x"), Origin(session="gone", entry="e"), Origin(session="x", entry="e")]
)
def test_a_fork_with_an_invalid_parent(origin):
    """A log may name itself or a missing session as its parent: the search ends."""
    store = MemoryStore()
    store.create("x", "crab", "user", lambda number: encode(Begun(id="x", number=number, parent=origin)))
    assert "crab" not in last_message(store, "x")


def test_a_sub_agent_shows_its_own_messages():
    """It inherits no messages of its parent."""
    story = SessionBuilder()
    story.user("A question")
    origin = Origin(session=story.session.id, entry=story.session.branch().nodes[-1].id, kind="subagent")
    story.store.create("y", "crab", "user", lambda number: encode(Begun(id="y", number=number, parent=origin)))
    assert last_message(story.store, "y") == ""


def test_only_the_needed_lines_are_read_for_the_last_message(monkeypatch):
    """However long the log is: a preview must not read two hundred tool results to show one line."""
    story, read = SessionBuilder(), []
    for number in range(20):
        story.user(f"question {number}")
    tail = story.store.tail

    def counting_tail(name):
        for line in tail(name):
            read.append(line)
            yield line

    monkeypatch.setattr(story.store, "tail", counting_tail)
    assert last_message(story.store, story.session.name) == "you: question 19"
    assert len(read) == 1


def test_the_last_message_of_an_unknown_session():
    story = SessionBuilder()
    assert "nobody" in last_message(story.store, "nobody")


def test_picked_on_a_terminal(shell, script, chat):
    """Filtered, chosen, opened; Esc leaves and prints nothing."""
    model = script({"text": "An answer."}, {"text": "More."})
    for prompt in ("the parser", "the lexer", "the printer"):
        assert shell.process("run", "--model", model, prompt, typed=b"").code == 0
    pane = chat("--pick")
    seen = pane.expect("Open which session? _", "the parser", "the lexer", "the printer", "agent: An answer.")
    assert "›  the printer" in seen
    assert all(f"agent_user_{number} " in seen for number in (1, 2, 3))
    pane.press("Down")
    pane.expect("›  the lexer")
    pane.type("pars")
    pane.until(lambda seen: "›  the parser" in seen and "the lexer" not in seen)
    pane.press("BSpace", "BSpace", "BSpace", "BSpace")
    pane.type("zzz")
    pane.expect("no session matches")
    pane.press("BSpace", "BSpace", "BSpace", "Enter")
    pane.expect("› the printer", "An answer.", READY)
    pane.say("go on")
    pane.expect("More.")
    other = chat("--pick")
    other.expect("Open which session?")
    other.press("Escape")
    assert "Open which" not in other.ended(0)


def test_keys_that_are_not_text(shell, script, chat):
    """Arrows to the side, function keys and Alt insert nothing; Ctrl-U and Ctrl-W delete."""
    model = script({"text": "An answer."})
    for prompt in ("the parser", "the lexer", "the printer"):
        assert shell.process("run", "--model", model, prompt, typed=b"").code == 0
    pane = chat("--pick")
    pane.expect("Open which session? _", "1 of 3")
    pane.press("Left", "Right", "F1", "F5", "DC", "IC", "S-Up", "C-Left", "BTab", "M-b", "End")
    pane.expect("Open which session? _", "›  the parser", "3 of 3")
    pane.press("Home")
    pane.expect("›  the printer", "1 of 3")
    pane.type("the pr")
    pane.expect("Open which session? the pr_", "1 of 1")
    pane.press("C-w")
    pane.expect("Open which session? the_", "1 of 3")
    pane.press("C-u", "PageDown")
    pane.expect("Open which session? _", "3 of 3")
    pane.resize(100, 6)
    pane.until(lambda seen: "agent: An answer." not in seen and "›  the parser" in seen and "3 of 3" in seen)
    pane.resize(100, 24)
    pane.expect("›  the parser", "the lexer", "the printer", "agent: An answer.")


# ── before anything is read ──────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def reading_held(url):
    """Hold the lock of the catalog, so that no process can fill it."""
    with contextlib.ExitStack() as held:
        if url.startswith("postgresql:"):
            server = held.enter_context(psycopg.connect(url))
            server.execute("SELECT pg_advisory_xact_lock(2002872165, 1818850164)")
        elif url.startswith("sqlite:"):
            file = held.enter_context(contextlib.closing(sqlite3.connect(url.partition(":")[2], isolation_level=None)))
            file.execute("BEGIN IMMEDIATE")
        else:
            path = f"{index_path(url)}.lock"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            fcntl.flock(held.enter_context(open(path, "wb")), fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize("kind", ["files", "sqlite", "postgres"])
def test_the_list_opens_before_anything_is_read(request, shell, script, chat, kind):
    """On a store without a catalog: typed keys count, and Enter opens as soon as it can."""
    url = {"sqlite": f"sqlite:{shell.folder}/sessions.db", "files": f"{shell.folder}/others"}.get(kind)
    url = url or request.getfixturevalue("postgres_url")
    model = script({"text": "An answer."})
    for prompt in ("the parser", "the lexer"):
        assert shell.process("run", "--store", url, "--model", model, prompt, typed=b"").code == 0
    with reading_held(url):
        pane = chat("--pick", "--store", url)
        pane.expect("Open which session? _", "reading sessions")
        pane.type("pars")
        pane.expect("Open which session? pars_", "reading sessions")
        pane.press("Enter")
    pane.expect("› the parser", "An answer.", READY)


def test_an_unreadable_list_is_one_line(shell, script, chat):
    """A store that goes away while the list is open: one line, no traceback."""
    url = f"sqlite:{shell.folder}/sessions.db"
    assert shell.process("run", "--store", url, "--model", script({"text": "."}), "go", typed=b"").code == 0
    (shell.folder / "sessions.db").write_bytes(b"not a database" * 500)
    seen = chat("--pick", "--store", url).ended(1)
    assert "Traceback" not in seen
    assert "sessions.db" in seen
