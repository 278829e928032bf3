"""ST-9: the command `import`: files, folders and usual places; what is new, what was left out, and what failed."""

import json
import signal

import pytest

from tests.exchange.codex_records import CHILD, answer, item, meta, turn_context, user
from tests.exchange.samples import jsonl
from tests.patience import PATIENCE_S
from wakelog.session import Session
from wakelog.stores import open_store

TIME = "2026-01-02T03:04:0{}.000Z"
SESSION = "0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f"


def _record(number, kind, parent, content, **more):
    message = {"role": kind, "content": content} | ({"id": f"m{number}", "model": "m"} if kind == "assistant" else {})
    return {
        "type": kind,
        "uuid": f"00000000-0000-4000-8000-00000000000{number}",
        "parentUuid": f"00000000-0000-4000-8000-00000000000{parent}" if parent else None,
        "sessionId": SESSION,
        "timestamp": TIME.format(number),
        "version": "2.1.0",
        "cwd": "/repo",
        "message": message,
    } | more


CALL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "a.txt"}
RECORDS = [
    _record(1, "user", None, "List the files"),
    _record(2, "assistant", 1, [{"type": "text", "text": "I look."}, CALL]),
    _record(3, "user", 2, [RESULT]),
    _record(4, "assistant", 3, [{"type": "text", "text": "There is a.txt."}]),
]
# Stored text is hostile: it moves the cursor and hides what follows.
EVIL = "evil \x1b[2J\x1b]0;title\x07 \u202e text"


@pytest.fixture
def claude(shell):
    """A file of Claude Code in its usual place."""
    path = shell.folder / ".claude" / "projects" / "-repo" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(jsonl(*RECORDS))
    return path


@pytest.fixture
def usual(shell, monkeypatch, claude):
    monkeypatch.setenv("HOME", str(shell.folder))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(shell.folder / ".claude"))
    for name in ("CODEX_HOME", "PI_CODING_AGENT_DIR", "OPENCLAW_STATE_DIR", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(shell.folder / "nothing"))
    return claude


def test_a_file_is_imported_once(shell, claude):
    """The second import reads nothing, and the session is as the first one left it."""
    done = shell("import", str(claude))
    assert (done.code, done.err) == (0, "")
    assert "claude-code: 1 new session imported; 4 records: 4 shown" in done.out
    again = shell("import", str(claude))
    assert (again.code, again.out) == (0, "1 file: unchanged since the last import\n")
    shown = shell("show", "claude-code_repo_1").out
    assert "List the files" in shown
    assert "There is a.txt." in shown


def test_a_file_that_has_grown(shell, claude):
    claude.write_bytes(jsonl(*RECORDS[:2]))
    shell("import", str(claude))
    claude.write_bytes(jsonl(*RECORDS))
    done = shell("import", str(claude))
    assert "grown" in done.out
    session = Session(open_store(str(shell.store)), "claude-code_repo_1")
    assert [row.text for row in session.transcript() if row.kind == "reply"] == ["I look.", "There is a.txt."]
    assert [row.status for row in session.transcript() if row.kind == "call"] == ["ok"]


def test_usual_places(shell, usual):
    """`--all` finds the sessions of each tool where the tool keeps them."""
    done = shell("import", "--all", "--json")
    assert (done.code, [row["origin"] for row in done.rows]) == (0, [SESSION])
    assert done.rows[0]["isNew"]


def test_a_folder_with_other_files(shell, claude):
    """Files that are no sessions are counted; a file that was named must be one."""
    other = claude.parent / "notes.json"
    other.write_text('{"a": 1}')
    done = shell("import", str(claude.parent))
    assert (done.code, done.err) == (0, "")
    assert "1 file: no session" in done.out
    named = shell("import", str(other))
    assert named.code == 1
    assert named.err.count("\n") == 1
    assert "is not a known session" in named.err


def test_a_file_that_is_known_and_has_no_session(shell, claude):
    """One that was found in a folder is no failure, such as the prompts of Codex; one that was named is."""
    prompts = claude.parent / "history.jsonl"
    prompts.write_bytes(jsonl(*[{"session_id": "s", "ts": 1, "text": "Hi"}] * 3))
    done = shell("import", str(claude.parent))
    assert (done.code, done.err, "1 file: no session" in done.out) == (0, "", True)
    assert shell("import", str(prompts)).code == 1


def test_a_session_of_pi_is_named_where_a_log_is_expected(shell, tmp_path):
    """LOG-6: its header is like wakelog's own, with the version of another format."""
    path = tmp_path / "p.jsonl"
    path.write_bytes(jsonl({"type": "session", "version": 3, "id": "a-b", "timestamp": "2026-01-01T00:00:00.000Z"}))
    done = shell("show", str(path))
    assert done.code == 2
    assert "is a session of pi" in done.err


def test_an_error_is_told_once_while_files_are_watched(shell, tmp_path):
    """`--watch` looks every two seconds; the same error each time would hide what is new."""
    (tmp_path / "tries").mkdir()
    watching = shell.start("import", "--watch", str(tmp_path / "absent.jsonl"), str(tmp_path / "tries"), text=True)
    assert "there is no file" in watching.stderr.readline()
    (tmp_path / "tries" / "a.jsonl").write_bytes(jsonl(*RECORDS))
    assert watching.stdout.readline().startswith("new")
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=PATIENCE_S)
    assert "there is no file" not in err


def test_damage_is_reported_with_its_place(shell, claude):
    """Law 9: a torn line costs itself, and is reported with its line."""
    claude.write_bytes(jsonl(*RECORDS)[:-20])
    done = shell("import", str(claude))
    assert done.code == 4
    assert "line 4 (byte" in done.err
    assert "not JSON" in done.err


def test_the_report(shell, claude):
    done = shell("import", str(claude), "--dry-run", "--report")
    assert (done.code, "4 records: 4 shown" in done.out) == (0, True)
    assert not list(shell.store.glob("*.jsonl"))


def test_the_report_of_a_file_that_has_not_changed(shell, claude):
    """ST-9: `--report` and `--json` say what became of the records at each import."""
    first = shell("import", str(claude), "--json")
    again = shell("import", str(claude), "--json")
    report = shell("import", str(claude), "--report")
    assert [again.json[key] for key in ("read", "mapped", "added")] == [
        first.json["read"],
        first.json["mapped"],
        0,
    ]
    assert "4 records: 4 shown" in report.out
    assert " 0 ×" not in report.out


def test_what_has_no_number_is_not_counted(shell):
    """ST-9: a rollout whose history is in a file that was not found."""
    lost = meta(history_base={"thread_id": CHILD, "end_ordinal_exclusive": 3})
    (shell.store.parent / "rollout.jsonl").write_bytes(jsonl(lost, user("Go"), answer("Done.")))
    report = shell("import", str(shell.store.parent / "rollout.jsonl"), "--report")
    shown = shell("show", "codex_repo_1")
    assert "which was not found" in report.out
    assert "history_base not imported: the history before this file" in shown.out
    assert "0 ×" not in report.out + shown.out


def test_a_document_of_an_import_begins_with_the_conversation(shell):
    """ST-8: the instructions of the agent follow it, and records without text are counted."""
    rules = item("message", role="developer", content=[{"type": "input_text", "text": "Be careful."}])
    records = (meta(), rules, turn_context(), user("Go"), answer("Done."))
    (shell.store.parent / "rollout.jsonl").write_bytes(jsonl(*records))
    shell("import", str(shell.store.parent / "rollout.jsonl"))
    document = shell("export", "codex_repo_1", "-f", "md").out
    headings = [line.partition(" · ")[0] for line in document.splitlines() if line.startswith("## ")]
    assert headings == ["## User", "## Assistant (gpt-5)", "## codex:developer", "## model"]
    assert document.endswith("*3 records without text are left out: `wakelog show --full codex_repo_1`*\n")


def test_an_own_log_is_imported_as_itself(shell, story, tmp_path):
    """A log of wakelog keeps its id and its bytes; `wake --all` does not run what waits in it."""
    story.user("hello")
    log = shell.store / "crab_user_1.jsonl"
    done = shell("import", str(log), "--store", str(tmp_path / "other"))
    assert (done.code, "wakelog: 1 new session imported" in done.out) == (0, True)
    copied = (tmp_path / "other" / "crab_user_1.jsonl").read_bytes()
    assert copied.startswith(log.read_bytes())
    assert json.loads(copied.splitlines()[-1])["type"] == "head"
    assert shell("wake", "--all", "--store", str(tmp_path / "other")).code == 0
    assert (tmp_path / "other" / "crab_user_1.jsonl").read_bytes() == copied
    again = shell("import", str(log), "--store", str(tmp_path / "other"))
    assert (again.code, (tmp_path / "other" / "crab_user_1.jsonl").read_bytes()) == (0, copied)


def test_mistakes(shell, claude):
    for words in ((), ("--all", str(claude)), ("--watch", "--dry-run", str(claude))):
        done = shell("import", *words)
        assert (done.code, done.err.count("\n")) == (2, 1)
    absent = shell("import", "absent.jsonl")
    assert (absent.code, "there is no file" in absent.err, "absent.jsonl" in absent.err) == (1, True, True)


def test_wake_all_leaves_imported_sessions_alone(shell, claude):
    """An unanswered prompt and an open call of another agent start nothing."""
    claude.write_bytes(jsonl(*RECORDS[:2]))
    shell("import", str(claude))
    before = (shell.store / "claude-code_repo_1.jsonl").read_bytes()
    done = shell("wake", "--all")
    assert "imported from another agent" in done.out + done.err
    assert (shell.store / "claude-code_repo_1.jsonl").read_bytes() == before


def _command(number, parent, name, arguments=""):
    text = f"<command-name>{name}</command-name>\n<command-message>x</command-message>"
    return _record(number, "user", parent, f"{text}\n<command-args>{arguments}</command-args>")


def _row(shell):
    (row,) = shell("ls", "--json").rows
    return row


def test_a_session_that_ended_with_a_command_is_idle(shell, claude):
    """ST-4: nothing answers `/exit`."""
    claude.write_bytes(jsonl(*RECORDS, _command(5, 4, "/exit")))
    shell("import", str(claude))
    assert (_row(shell)["state"], _row(shell)["prompt"]) == ("idle", "List the files")


def test_a_session_that_began_with_a_command_is_known_by_it(shell, claude):
    """ST-4: by its arguments, or by the first prompt after a command without any; the growth of a log changes that."""
    claude.write_bytes(jsonl(_command(1, None, "/clear")))
    shell("import", str(claude))
    assert _row(shell)["prompt"] == "/clear"
    claude.write_bytes(jsonl(_command(1, None, "/clear"), _record(2, "user", 1, "List the files")))
    shell("import", str(claude))
    assert _row(shell)["prompt"] == "List the files"
    claude.write_bytes(jsonl(_command(1, None, "/clear"), _record(2, "user", 1, "List the files"), RECORDS[3]))
    shell("import", str(claude))
    assert _row(shell)["prompt"] == "List the files"


def test_a_command_with_arguments_is_kept(shell, claude):
    """ST-4: it says what the session is about."""
    claude.write_bytes(jsonl(_command(1, None, "/review", "pull request 12"), _record(2, "user", 1, "Go on")))
    shell("import", str(claude))
    assert _row(shell)["prompt"] == "/review pull request 12"
    assert "/review pull request 12" in shell("ls").out


def test_the_name_of_an_imported_session_has_its_project(shell, claude):
    """ST-4: the sender is the same for all of them, so the folder stands in its place."""
    shell("import", str(claude))
    assert (_row(shell)["name"], _row(shell)["sender"]) == ("claude-code_repo_1", "user")


def test_hostile_text(shell, claude):
    """Law 13: ids, paths and records of other agents reach the terminal without control characters."""
    claude.write_bytes(jsonl(*RECORDS, {"type": EVIL, "sessionId": EVIL}) + b'{"evil \x1b[2J')
    done = shell("import", str(claude), "--report")
    for text in (done.out, done.err, shell("show", "claude-code_repo_1").out, shell("ls").out):
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_the_session_says_where_it_comes_from(shell, claude):
    shell("import", str(claude))
    log = [json.loads(line) for line in (shell.store / "claude-code_repo_1.jsonl").read_bytes().splitlines()]
    assert (log[1]["customType"], log[1]["data"]["tool"], log[1]["data"]["session"]) == (
        "wakelog:import",
        "claude-code",
        SESSION,
    )
    assert (log[1]["data"]["fidelity"], log[1]["data"]["read"]) == (1.0, 4)


@pytest.mark.parametrize("command", ["show", "verify", "context", "export"])
def test_a_session_of_another_agent_is_named_where_a_log_is_expected(shell, claude, command):
    """ST-9: one line says what the file is and how to import it, instead of an empty or damaged session."""
    claude.write_bytes(jsonl(*RECORDS))
    done = shell(command, str(claude))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert f"is a session of claude-code; `wakelog import {claude}` imports it" in done.err


def test_show_says_where_a_session_comes_from_and_what_is_not_in_it(shell, claude):
    """ST-9: the account of the import is a part of the session."""
    claude.write_bytes(jsonl(*RECORDS) + b"torn\n")
    shell("import", str(claude))
    lines = shell("show", "claude-code_repo_1").out.splitlines()
    assert lines[2].startswith("imported from claude-code")
    assert "records are entries" in lines[2]
    assert lines[3].strip().startswith(f"line {len(RECORDS) + 1} not imported: not JSON")
    assert "wakelog:import" not in "\n".join(lines)
    assert "wakelog:import" in shell("show", "claude-code_repo_1", "--full").out


def test_an_import_counts_redacted_secrets_and_replaces_what_they_name(shell, claude, monkeypatch):
    """LOG-20: a value that is recognised in an imported session is replaced in its later entries, and counted."""
    monkeypatch.setenv("BILLING_TOKEN", "x9Kd72Lm04Qp")
    secret = "q7Zk2Vw9Xr4Tb8Lm3Np6"
    claude.write_bytes(
        jsonl(
            _record(1, "user", None, f"ADMIN_TOKEN={secret}"),
            _record(2, "assistant", 1, [{"type": "text", "text": f"It is {secret}, not x9Kd72Lm04Qp."}]),
        )
    )
    counts = {"assignment": 2, "known-value": 1}
    dry = shell("import", str(claude), "--dry-run", "--json").rows
    assert [row["redacted"] for row in dry] == [{}]
    done = shell("import", str(claude))
    assert "; 3 secrets redacted: 2 assignment, 1 known-value\n" in done.out
    assert secret.encode() not in (shell.store / "claude-code_repo_1.jsonl").read_bytes()
    assert shell("show", "claude-code_repo_1", "--json").rows[-1]["counts"] == counts
    claude.write_bytes(claude.read_bytes() + jsonl(_record(3, "user", 2, f"Again ADMIN_TOKEN={secret}")))
    assert [row["redacted"] for row in shell("import", str(claude), "--json").rows] == [{"assignment": 1}]
