"""`chat --pick`: however many sessions there are, a page is fetched, and a log is looked into only where one looks."""

import pytest

from tests.cli.chat.seeing import READY
from wakelog.cli.chat.picker import last_words, rows_of
from wakelog.cli.chat.picking import PAGE, Picking, fits
from wakelog.session import Session
from wakelog.stores.catalog.index import Index
from wakelog.stores.catalog.index_tables import IndexTables
from wakelog.stores.memory import MemoryStore
from wakelog.testing.builders import Story
from wakelog.views.session_row import SessionRow

MANY = 10_000


def row(number, **more):
    said = {"title": f"Session {number}", "prompt": "", "state": "rest", "model": "demo", "cwd": "/work", **more}
    return SessionRow(
        id=f"i{number}", name=f"crab_user_{number}", agent="crab", sender="user", updated="2026-01-01T00:00:00.000Z",
        entries=1, created="", messages=1, size=1, number=number, archived=False, damage=0, origin=None, attached=False,
        cursor=str(number), **said,
    )  # fmt: skip


class Counted:
    """Rows by the page, counted as they are fetched."""

    def __init__(self, rows):
        self.rows, self.fetched, self.asked = rows, 0, 0

    def __call__(self, limit, after):
        start = 0 if after is None else int(after) + 1
        page = self.rows[start : start + limit]
        self.fetched += len(page)
        self.asked += 1
        return page


@pytest.fixture
def many():
    return Counted([row(number) for number in range(MANY)])


def test_a_page_is_fetched_of_ten_thousand(many):
    """Opens at once: the work is that of one page."""
    picking = Picking(many, 15)
    assert (many.fetched, many.asked) == (PAGE, 1)
    assert [found.name for found in picking.window[1]] == [f"crab_user_{number}" for number in range(15)]
    for _ in range(30):
        picking.move(1)
    assert many.fetched == PAGE
    picking.move(10)
    assert many.fetched == 2 * PAGE
    assert picking.row.name == "crab_user_40"


def test_a_filter_reads_no_further_than_it_must(many):
    picking = Picking(many, 15)
    picking.type("SESSION 7")
    assert many.fetched <= 3 * PAGE
    assert all("7" in found.title for found in picking.window[1])
    picking.type("session 9999")
    assert [found.name for found in picking.window[1]] == ["crab_user_9999"]
    assert (many.fetched, many.asked < 12) == (MANY, True)
    picking.type("")
    assert picking.row.name == "crab_user_0"
    assert many.fetched == MANY


def test_choosing_stays_within_the_list():
    picking = Picking(Counted([row(number) for number in range(3)]), 15)
    picking.move(-5)
    assert picking.row.name == "crab_user_0"
    picking.move(50)
    assert picking.row.name == "crab_user_2"
    picking.type("nothing like it")
    picking.move(1)
    assert (picking.row, picking.window) == (None, (0, []))


@pytest.mark.parametrize(
    ("text", "fit"),
    [
        ("", True),
        ("PARSER", True),
        ("parser rest", True),
        ("parser lexer", False),
        ("/work", True),
        ("crab_user_7", True),
    ],
)
def test_what_fits(text, fit):
    assert fits(row(7, title="The parser"), text) is fit


def test_the_catalog_is_asked_for_pages_too(tmp_path):
    """The same over real tables, with three pages of sessions."""
    store = MemoryStore()
    for _ in range(3 * PAGE):
        Session.create(store, agent="crab", sender="user")
    catalog = Index(store, IndexTables(str(tmp_path / "index.sqlite")))
    catalog.refresh()
    asked = []
    fetch = rows_of(catalog)
    picking = Picking(lambda limit, after: asked.append(limit) or fetch(limit, after), 15)
    assert asked == [PAGE]
    picking.move(10 * PAGE)
    assert asked == [PAGE, PAGE, 2 * PAGE]
    assert picking.row is not None
    catalog.close()


def test_the_last_words_of_a_session():
    """Of either side; what is no message is looked past."""
    story = Story()
    assert last_words(story.store, story.session.name) == ""
    story.user("A question")
    assert last_words(story.store, story.session.name) == "you: A question"
    reply = story.reply("An answer", calls=[("t", "read", {})])
    story.result(reply, "t")
    story.session.rename("x")
    assert last_words(story.store, story.session.name) == "agent: An answer"


def test_the_last_words_are_read_no_further_than_they_are(monkeypatch):
    """However long the log is: a preview must not read two hundred tool results to show one line."""
    story, read = Story(), []
    for number in range(20):
        story.user(f"question {number}")
    tail = story.store.tail
    monkeypatch.setattr(story.store, "tail", lambda name: (read.append(line) or line for line in tail(name)))
    assert last_words(story.store, story.session.name) == "you: question 19"
    assert len(read) == 1


def test_the_last_words_of_nobody():
    story = Story()
    assert "nobody" in last_words(story.store, "nobody")


def test_picked_on_a_terminal(shell, script, chat):
    """Typed into, chosen, opened; Esc leaves without a word."""
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
    pane.expect("no session fits")
    pane.press("BSpace", "BSpace", "BSpace", "Enter")
    pane.expect("› the printer", "An answer.", READY)
    pane.say("go on")
    pane.expect("More.")
    other = chat("--pick")
    other.expect("Open which session?")
    other.press("Escape")
    assert "Open which" not in other.ended(0)
