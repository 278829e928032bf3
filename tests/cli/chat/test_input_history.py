"""What was typed in earlier chats: for its owner alone, bounded, and never a reason to stop."""

import os
import stat

from wakelog.cli.chat.screen import HISTORY_MAX, InputHistory, history_path


def test_the_newest_first_and_for_its_owner_alone(tmp_path):
    path = str(tmp_path / "state" / "history.jsonl")
    history = InputHistory(path)
    for text in ("one", "two\nlines", "\x1b[31mred \u202e", '"quoted" \\'):
        history.store_string(text)
    assert list(InputHistory(path).load_history_strings()) == ['"quoted" \\', "\x1b[31mred \u202e", "two\nlines", "one"]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700


def test_secrets_stay_out(tmp_path):
    """Law 14: what has the shape of a key is not kept for the next chat, and the rest of the line is."""
    path, key = tmp_path / "history.jsonl", "sk-ant-api03-" + "Ab1_" * 23
    InputHistory(str(path)).store_string(f"use {key} for this")
    assert key.encode() not in path.read_bytes()
    (kept,) = InputHistory(str(path)).load_history_strings()
    assert (kept[:4], kept[-9:]) == ("use ", " for this")


def test_bounded(tmp_path):
    """A file that has grown is cut to its newest lines when a chat begins; a very long text is not kept."""
    path = tmp_path / "history.jsonl"
    path.write_text("".join(f'"{number}"\n' for number in range(2 * HISTORY_MAX + 1)))
    texts = list(InputHistory(str(path)).load_history_strings())
    assert (len(texts), texts[0], texts[-1]) == (HISTORY_MAX, str(2 * HISTORY_MAX), str(HISTORY_MAX + 1))
    assert path.read_text().count("\n") == HISTORY_MAX
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    InputHistory(str(path)).store_string("x" * 1_000_000)
    assert path.read_text().count("\n") == HISTORY_MAX


def test_what_cannot_be_read_is_looked_past(tmp_path):
    """Half a line, a line of another program, no file, no right to write: a chat goes on."""
    path = tmp_path / "history.jsonl"
    path.write_bytes(b'"good"\n{"not": "ours"}\n\xff\xfe\n"cut')
    assert list(InputHistory(str(path)).load_history_strings()) == ["good"]
    assert list(InputHistory(str(tmp_path / "none")).load_history_strings()) == []
    (tmp_path / "file").write_text("")
    InputHistory(str(tmp_path / "file" / "history.jsonl")).store_string("lost")


def test_where_it_is(monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert history_path() == "/state/wakelog/history.jsonl"
    monkeypatch.setenv("XDG_STATE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", "/home/me")
    assert history_path() == "/home/me/.local/state/wakelog/history.jsonl"


def test_what_cannot_be_encoded(tmp_path):
    """Bytes that are no UTF-8 reach a program as halves of pairs; they are written out."""
    path = str(tmp_path / "history.jsonl")
    InputHistory(path).store_string("odd \udcff")
    assert list(InputHistory(path).load_history_strings()) == ["odd \\udcff"]
