"""`ls` and `search`: all sessions, from the index (ST-4, ST-5)."""

import shlex
import shutil
from typing import get_args
from urllib.parse import urlsplit

import pytest

from wakelog.cli.commands.ls import STATES
from wakelog.projections.overview import SessionStateName
from wakelog.session import Session
from wakelog.stores.sqlite import SqliteStore


@pytest.fixture
def three(shell, store):
    """Three sessions of two agents; the last one is the newest."""
    for agent, said in (("crab", "the parser hangs"), ("crab", "the lexer hangs"), ("dove", "the parser works")):
        session = Session.create(store, agent=agent, sender="user", cwd=f"/work/{agent}")
        session.say(said)
    return shell


def names(answer):
    return [row["name"] for row in answer.rows]


def test_ls_json(three):
    """One object a line, the newest first, with the documented fields."""
    answer = three("ls", "--json")
    assert names(answer) == ["dove_user_1", "crab_user_2", "crab_user_1"]
    first = answer.rows[0]
    assert list(first)[:8] == ["id", "name", "agent", "sender", "title", "updated", "entries", "state"]
    assert (first["agent"], first["entries"], first["state"], first["prompt"]) == (
        "dove",
        2,
        "pending",
        "the parser works",
    )


def test_ls_filters(three):
    assert names(three("ls", "--agent", "crab", "--json")) == ["crab_user_2", "crab_user_1"]
    assert names(three("ls", "--sender", "nobody", "--json")) == []
    assert names(three("ls", "--cwd", "/work/dove", "--json")) == ["dove_user_1"]
    assert names(three("ls", "--limit", "1", "--json")) == ["dove_user_1"]
    three("archive", "crab_user_2")
    assert names(three("ls", "--archived", "--json")) == ["crab_user_2"]
    assert set(names(three("ls", "--all", "--json"))) == {"crab_user_1", "crab_user_2", "dove_user_1"}
    assert three("list", "--json").rows == three("ls", "--json").rows


def test_ls_says_how_many_more_there_are(three):
    answer = three("ls", "--limit", "2")
    assert len(answer.out.splitlines()) == 2
    assert answer.err == "wakelog: 1 more session; `--limit 3` shows all\n"
    assert three("ls", "--limit", "3").err == ""


def test_the_suggested_limit_grows_in_steps(shell, store):
    """The next limit is at most ten times as large, so that no hint prints thousands of rows at once."""
    for _ in range(12):
        Session.create(store, agent="crab", sender="user").say("hi")
    assert shell("ls", "--limit", "1").err == "wakelog: 11 more sessions; `--limit 10` shows more\n"
    assert shell("ls", "--limit", "2").err == "wakelog: 10 more sessions; `--limit 12` shows all\n"


def test_people_get_a_limit_and_programs_a_cursor(three):
    """ST-4, ST-5: people need not type a cursor; a program finds it in every row, and in the note."""
    for words in (("ls",), ("search", "the"), ("search", "the", "--names")):
        shown = three(*words, "--limit", "1")
        assert ("--limit" in shown.err, "--after" in shown.err, len(shown.err) < 80) == (True, False, True)
        more = shown.err.split("`")[1].split()
        assert len(three(*words, *more).out) > len(shown.out)
        assert "--after" in three(*words, "--limit", "1", "--json").err


def next_page(shell, answer):
    """Run the command that stderr gives a program for the next page."""
    words = shlex.split(answer.err.split("`")[1])
    assert words[0] == "wakelog"
    return shell(*words[1:])


def test_ls_page_by_page(three):
    """ST-4: the note names the command for the next page, filters included, until there is no more."""
    whole = three("ls", "--json").rows
    first = three("ls", "--limit", "1", "--json")
    second = next_page(three, first)
    third = next_page(three, second)
    assert [*first.rows, *second.rows, *third.rows] == whole
    assert third.err == ""
    assert three("ls", "--after", whole[0]["cursor"], "--json").rows == whole[1:]
    assert "no sessions after this cursor" in three("ls", "--after", whole[-1]["cursor"]).err
    three("archive", "crab_user_1")
    page = three("ls", "--agent", "crab", "--all", "--cwd", "/work/crab", "--limit", "1", "--json")
    assert names(next_page(three, page)) == ["crab_user_2"]


def test_search_page_by_page(three):
    """ST-5: as for lists; a query that begins with a minus stays a query."""
    whole = three("search", "the", "--json").rows
    assert len(whole) == 3
    first = three("search", "the", "--limit", "2", "--json")
    rest = next_page(three, first)
    assert ([*first.rows, *rest.rows], rest.err) == (whole, "")
    page = three("search", "--limit", "1", "--json", "--", "-works", "hangs")
    assert {*names(page), *names(next_page(three, page))} == {"crab_user_1", "crab_user_2"}


@pytest.mark.parametrize("words", [("ls",), ("search", "the")])
def test_an_invalid_cursor(three, words):
    answer = three(*words, "--after", "nowhere")
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)


def test_a_database_lists_and_searches_as_files_do(shell):
    """Law 12: the same commands on another store; its catalog is in it, and no cache is created."""
    store = ("--store", "sqlite:sessions.db")
    assert "`wakelog chat` creates one" in shell("ls", *store).err
    assert not (shell.folder / "sessions.db").exists()
    shell("new", *store, "--agent", "crab")
    shell("append", *store, "crab_user_1", "the parser hangs")
    assert names(shell("ls", *store, "--json")) == ["crab_user_1"]
    assert shell("search", *store, "pars* agent:crab", "--json").rows[0]["excerpt"] == "the «parser» hangs"
    assert shell("show", *store, "@latest").code == 0
    report = shell("doctor", *store, "--json").json
    assert (report["sessions"], report["index"], report["indexBytes"]) == (1, "", 0)
    assert "index" not in shell("doctor", *store).out
    assert shell("du", *store, "--json").rows[-1]["index"] == 0
    SqliteStore(str(shell.folder / "sessions.db")).blobs.put(b"x" * 5_000)
    assert shell("du", *store, "--json").rows[-1]["blobs"] == 5_000
    assert not (shell.folder / "cache").exists()


def test_no_password_is_shown(shell, postgres_url):
    """Law 14: a URL is shown without its password."""
    secret = urlsplit(postgres_url).password
    for words in (("ls",), ("show", "crab_user_1"), ("doctor",), ("doctor", "--json"), ("search", "x")):
        answer = shell(*words, "--store", postgres_url)
        assert secret not in answer.out + answer.err


def test_ls_of_an_empty_store(shell):
    answer = shell("ls")
    assert (answer.code, answer.out) == (0, "")
    assert "no session yet; `wakelog chat` creates one" in answer.err
    assert not shell.store.exists()


def test_ls_of_archived_sessions(shell):
    shell("new")
    shell("archive", "agent_user_1")
    assert "`--all` shows all" in shell("ls").err
    assert "no session matches" in shell("ls", "--agent", "nobody").err


@pytest.mark.meddled
def test_ls_shows_running_sessions(shell, store):
    """`running` while a lease is in force, which only the store knows."""
    session = Session.create(store, agent="crab", sender="user")
    lease = session.acquire("a worker", ttl_s=60)
    assert [row["state"] for row in shell("ls", "--json").rows] == ["running"]
    assert [row["state"] for row in shell("ls", "--state", "running", "--json").rows] == ["running"]
    assert shell("ls", "--state", "idle", "--json").rows == []
    session.release(lease)
    assert [row["state"] for row in shell("ls", "--all", "--json").rows] == ["idle"]
    assert shell("ls", "--state", "running", "--json").rows == []


def test_ls_of_one_state(three, store):
    """ST-4: sessions in a state, page by page; the states are those of the overview."""
    Session(store, "crab_user_1").end(force=True)
    assert names(three("ls", "--state", "terminated", "--json")) == ["crab_user_1"]
    first = three("ls", "--state", "pending", "--limit", "1", "--json")
    assert names(first) == ["dove_user_1"]
    assert names(next_page(three, first)) == ["crab_user_2"]
    shown = three("ls", "--state", "pending", "--limit", "1")
    assert shown.err == "wakelog: more sessions; `--limit 10` shows more\n"
    assert three("ls", "--state", "failed").out == ""
    assert three("ls", "--state", "asleep").code == 2
    assert set(STATES) == {*get_args(SessionStateName), "inaccessible", "unknown"}


def test_ls_leaves_out_empty_sessions(three, store):
    """ST-4: nothing was said in them; a note counts them, `--all` shows them, and no row is blank."""
    Session.create(store, agent="idler", sender="user")
    answer = three("ls")
    assert "idler" not in answer.out
    assert answer.err == "wakelog: 1 empty session left out; `--all` shows all\n"
    assert three("ls", "--agent", "idler").err.startswith("wakelog: 1 empty session; `--all` shows all")
    assert three("ls", "--agent", "idler", "--all").out.split()[-1] == "(empty)"
    assert {row["agent"] for row in three("ls", "--all", "--json").rows} == {"crab", "dove", "idler"}
    three("rename", "idler_user_1", "for later")
    assert "for later" in three("ls").out


def test_ls_shows_agent_and_project(three, store):
    """ST-4: the folder's name is stored text: it is shown safely, and the columns fit the terminal."""
    Session.create(store, agent="crab", sender="user", cwd="/home/ada/evil\x1b[31m\u202eproject/.worktrees/2").say("hi")
    lines = three.terminal("ls", columns=60, env={"NO_COLOR": "1"}).out.splitlines()
    assert lines[0].split()[:4] == ["NAME", "AGENT", "PROJECT", "STATE"]
    assert max(len(line) for line in lines) <= 60
    shown = three("ls").out
    assert "evil" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_only_attached_sessions_on_the_page_cost_a_look(three, store, monkeypatch):
    """The lease of a session is read only where its log says that a worker attached."""
    asked = []
    monkeypatch.setattr("wakelog.stores.jsonl.JsonlStore.held", lambda self, name: asked.append(name))
    Session(store, "crab_user_1").acquire("a worker", ttl_s=60)
    asked.clear()
    three("ls", "--json")
    assert asked == ["crab_user_1"]


def test_ls_and_search_report_damage_and_succeed(three):
    """Law 9: `ls` and `search` report damage but exit 0."""
    log = three.store / "crab_user_1.jsonl"
    log.write_bytes(log.read_bytes() + b"rubbish\n")
    answer = three("ls", "--json")
    assert answer.code == 0
    assert [row["state"] for row in answer.rows if row["name"] == "crab_user_1"] == ["damaged"]
    assert "doctor crab_user_1" in answer.err
    found = three("search", "hangs")
    assert found.code == 0
    assert "doctor crab_user_1" in found.err
    assert three("search", "works").err == ""


def test_search_json(three):
    hits = three("search", "parser", "--json").rows
    assert {hit["name"] for hit in hits} == {"crab_user_1", "dove_user_1"}
    assert set(hits[0]) >= {"session", "name", "entry", "type", "timestamp", "excerpt"}
    assert "«parser»" in hits[0]["excerpt"]
    assert three("search", "parser", "--limit", "1", "--json").raw.count(b"\n") == 1


def test_search_as_text_on_a_terminal_and_in_a_pipe(three):
    """A hit's first line begins with an address that can be typed, as `show` and `tree` would print it."""
    (hit,) = three("search", "lexer", "--json").rows
    address = three("search", "lexer").out.split()[0]
    assert (address, hit["seq"]) == ("crab_user_2:1", 1)
    assert three("show", address, "--json").rows[-1]["id"] == hit["entry"]
    assert three("tree", "crab_user_2").out.splitlines()[1].split()[0] == "1"
    for words in (("head", address), ("fork", address), ("label", address, "here")):
        assert three(*words).code == 0
    assert three("fork", address, "--new-session", "--json").json["parent"]["entry"] == hit["entry"]
    assert sorted(three("search", "hangs", "--names").out.split()) == ["crab_user_1", "crab_user_2"]
    assert three("search", "the", "lexer", "hangs", "--names").out == "crab_user_2\n"


@pytest.mark.meddled
def test_a_number_of_two_entries_means_the_first(shell):
    """Law 9: in a log with wrong numbers, the address of a hit still leads to it."""
    shell.store.mkdir()
    (shell.store / "odd.jsonl").write_bytes(
        b'{"type":"session","id":"odd","seq":0}\n'
        b'{"type":"message","id":"aaaaaaaaaa","seq":1,"message":{"role":"user","content":"one parser"}}\n'
        b'{"type":"message","id":"bbbbbbbbbb","seq":1,"message":{"role":"user","content":"two parser"}}\n'
        b'{"type":"message","id":"cc","seq":2,"message":{"role":"user","content":"three parser"}}\n'
    )
    shown = {line.split()[0] for line in shell("search", "parser").out.splitlines() if line.startswith("odd")}
    assert shown == {"odd:1", "odd:bbbbbbbbbb", "odd:cc"}
    assert shell("context", "odd:1", "--json").json["entries"] == ["aaaaaaaaaa"]


def test_search_in_a_relative_folder(shell, store, monkeypatch):
    """ST-5: a relative `cwd:` is relative to the current folder, as `--cwd` of `ls` is, and `~` is home."""
    for folder in ("my proj", "other"):
        (shell.folder / folder).mkdir()
        Session.create(store, agent=folder[:2], sender="user", cwd=str(shell.folder / folder)).say("hello")
    found = {".": "my ot", "my": "", "other": "ot", "~/other": "ot", '"./my proj/"': "my", str(shell.folder): "my ot"}
    for folder, agents in found.items():
        answer = shell("search", "hello", f"cwd:{folder}", "--names")
        assert sorted(answer.out.split()) == [f"{agent}_user_1" for agent in agents.split()], folder
    monkeypatch.chdir(shell.folder / "my proj")
    assert shell("search", "hello", "cwd:.", "--names").out == "my_user_1\n"
    assert shell("search", "hello -cwd:.", "--names").out == "ot_user_1\n"
    assert shell("search", "hello", "cwd:../other", "--names").out == "ot_user_1\n"


@pytest.mark.parametrize(("query", "code"), [("nothing-like-it", 0), ('"', 2), ("   ", 2), ("-- -parser", 2)])
def test_search_without_hits(three, query, code):
    answer = three("search", *query.split(" "))
    assert (answer.code, answer.out) == (code, "")
    assert answer.err.count("\n") == 1


def test_the_index_may_be_deleted_at_any_time(three):
    """Law 2: without the index the answers are the same."""
    before = three("ls", "--json").raw, three("search", "parser", "--json").raw
    shutil.rmtree(three.folder / "cache")
    assert (three("ls", "--json").raw, three("search", "parser", "--json").raw) == before
