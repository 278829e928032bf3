"""The history of typed messages: private, bounded, and never a reason to stop."""

import os
import stat

from wakelog.cli.chat.screen import HISTORY_MAX, InputHistory, history_path


def test_the_newest_first_and_private(tmp_path):
    path = str(tmp_path / "state" / "history.jsonl")
    history = InputHistory(path)
    for text in ("one", "two\nlines", "\x1b[31mred \u202e", '"quoted" \\'):
        history.store_string(text)
    assert list(InputHistory(path).load_history_strings()) == ['"quoted" \\', "\x1b[31mred \u202e", "two\nlines", "one"]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700


def test_secrets_stay_out(tmp_path):
    """Law 14: text with the shape of a key is not stored for the next chat, and the rest of the line is."""
    path, key = tmp_path / "history.jsonl", "sk-ant-api03-" + "Ab1_" * 23
    InputHistory(str(path)).store_string(f"use {key} for this")
    assert key.encode() not in path.read_bytes()
    (kept,) = InputHistory(str(path)).load_history_strings()
    assert (kept[:4], kept[-9:]) == ("use ", " for this")


def test_bounded(tmp_path):
    """A file that has grown is cut to its newest lines when a chat begins; a very long text is not stored."""
    path = tmp_path / "history.jsonl"
    path.write_text("".join(f'"{number}"\n' for number in range(2 * HISTORY_MAX + 1)))
    texts = list(InputHistory(str(path)).load_history_strings())
    assert (len(texts), texts[0], texts[-1]) == (HISTORY_MAX, str(2 * HISTORY_MAX), str(HISTORY_MAX + 1))
    assert path.read_text().count("\n") == HISTORY_MAX
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    InputHistory(str(path)).store_string("x" * 1_000_000)
    assert path.read_text().count("\n") == HISTORY_MAX


def test_unreadable_history_is_ignored(tmp_path):
    """Half a line, a line of another program, no file, no right to write: the chat continues."""
    path = tmp_path / "history.jsonl"
    path.write_bytes(b'"good"\n{"not": "ours"}\n\xff\xfe\n"cut')
    assert list(InputHistory(str(path)).load_history_strings()) == ["good"]
    assert list(InputHistory(str(tmp_path / "none")).load_history_strings()) == []
    (tmp_path / "file").write_text("")
    InputHistory(str(tmp_path / "file" / "history.jsonl")).store_string("lost")


def test_the_path_of_the_history(monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert history_path() == "/state/wakelog/history.jsonl"
    monkeypatch.setenv("XDG_STATE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", "/home/me")
    assert history_path() == "/home/me/.local/state/wakelog/history.jsonl"


def test_text_that_cannot_be_encoded(tmp_path):
    """Bytes that are not UTF-8 reach a program as lone surrogates; they are escaped."""
    path = str(tmp_path / "history.jsonl")
    InputHistory(path).store_string("odd \udcff")
    assert list(InputHistory(path).load_history_strings()) == ["odd \\udcff"]
