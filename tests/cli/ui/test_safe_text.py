"""Stored text is hostile on the way out (law 13): no command prints anything of a log that a terminal would obey."""

import json
import re
from typing import Any

import pytest

from tests.cli.payloads import PAYLOADS, SURROGATES
from tests.cli.reading_commands import reading_commands
from wakelog.cli.ui.safe_text import first_line, hostile_characters, json_line, visible, visible_lines
from wakelog.cli.ui.terminal import _SGR

OURS = re.compile("\x1b\\[(?:0|{})m".format("|".join(re.escape(code) for code in set(_SGR.values()))))
ZERO = "2026-01-01T00:00:00.000Z"
JOINED = ["👨\u200d👩\u200d👧", "👩🏽\u200d💻", "❤\ufe0f\u200d🔥", "🏳\ufe0f\u200d🌈"]


def rest(text):
    """Return the harmful characters that are left without wakelog's own colours and line ends."""
    return hostile_characters().findall(OURS.sub("", text).replace("\n", ""))


# ── the function itself ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", [*PAYLOADS, *SURROGATES])
def test_hostile_text_becomes_visible(text):
    """Law 13: shown as symbols, never dropped."""
    shown = visible(text)
    assert rest(shown) == []
    assert shown != text
    assert len(shown) >= len(text.replace("\t", ""))
    assert rest("".join(visible_lines(text))) == []
    assert rest(first_line(text)) == []


def test_there_are_enough_payloads():
    assert len(PAYLOADS) >= 60


@pytest.mark.parametrize(
    "text", ["plain", "Grüße, 日本語, ñ", "⚠️ sign", "é combining", "😀", "a  b", "", "tab\tbed", *JOINED]
)
def test_ordinary_text_stays(text):
    assert visible(text) == text.replace("\t", "    ")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", "␛[31m"),
        ("\x07", "␇"),
        ("\x7f", "␡"),
        ("\x9b", "⟨U+009B⟩"),
        ("\u202e", "⟨U+202E⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("\U000e0041", "⟨U+E0041⟩"),
        ("a\nb", "a␊b"),
        # A joiner is kept where it joins two emoji, and is shown as a symbol everywhere else.
        ("a\u200db", "a⟨U+200D⟩b"),
        ("👨\u200d", "👨⟨U+200D⟩"),
        ("\u200d👩", "⟨U+200D⟩👩"),
        ("👨\u200d\u200d👩", "👨⟨U+200D⟩⟨U+200D⟩👩"),
        ("a\ufe0f\u200d👩", "a\ufe0f⟨U+200D⟩👩"),
    ],
)
def test_symbols(text, shown):
    assert visible(text) == shown


def test_lines_end_at_lf_and_crlf_only():
    assert visible_lines("a\r\nb\nc\rd\u2028e") == ["a", "b", "c␍d⟨U+2028⟩e"]


@pytest.mark.parametrize("text", PAYLOADS)
def test_json_keeps_the_value_and_escapes_the_bytes(text):
    line = json_line({"text": text}).decode()
    assert json.loads(line) == {"text": text}
    assert rest(line) == []


# ── every command ────────────────────────────────────────────────────────────────────────────────


def hostile_log():
    """A log of another program with hostile text in every place that contains text."""
    texts = [*PAYLOADS, *SURROGATES]

    def line(kind, number, **more):
        parent = f"m{number - 1}" if number else "s0"
        return {"type": kind, "id": f"m{number}", "parentId": parent, "timestamp": ZERO, **more}

    entries = [
        {
            "type": "session",
            "id": "s0",
            "timestamp": ZERO,
            "version": 1,
            **dict.fromkeys(("cwd", "agent", "sender", "app", "title", "provider", "model"), "".join(PAYLOADS)),
        }
    ]
    for number, text in enumerate(texts):
        kinds = (
            {"message": {"role": "user", "content": text}},
            {
                "message": {
                    "role": "assistant",
                    "model": text,
                    "content": [
                        {"type": "text", "text": text},
                        {"type": "thinking", "thinking": text},
                        {"type": "toolCall", "id": "t", "name": text, "input": {"command": text, text: text}},
                        {"type": text, "what": text},
                    ],
                }
            },
            {"message": {"role": "toolResult", "toolCallId": "t", "toolName": text, "content": text}},
            {"message": {"role": "custom", "customType": text, "content": text}},
        )
        entries.append(line("message", number, **kinds[number % 4]))
    number = len(texts)
    for text in texts:
        entries += [
            line("setting", number, key=text, value={text: text}),
            line("model_change", number + 1, model=text),
            line("failed", number + 2, reason=text, error={"kind": text, "message": text}),
            line("custom", number + 3, customType=text, data=text, content=text),
            line("compaction", number + 4, summary=text),
            {**line(text, number + 4), "id": f"u{number}"},
            {**line("label", number + 4), "id": f"l{number}", "targetId": f"m{number}", "label": text},
            {**line("session_renamed", 0), "id": f"r{number}", "parentId": "s0", "title": text},
            {**line("message", 0), "id": f"b{number}", "parentId": text, "message": {"role": "user", "content": text}},
            {**line("message", 0), "id": f"m{number}", "parentId": text, "message": {"role": text}},
            {**line("message", 0), "id": f"e{number}", "message": {"role": text, "content": 7}, "timestamp": text},
            {**line("context", 0), "id": f"c{number}", "sources": [{"path": text, "kind": text}]},
        ]
        number += 5
    lines = [json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") for entry in entries]
    escaped = [json.dumps(entry).encode() for entry in entries[1:] if '"id": "m' in json.dumps(entry)][-20:]
    lines += [line.replace(b'"id": "m', b'"id": "x') for line in escaped]
    lines += [b"rubbish " + text.encode("utf-8", "replace").replace(b"\n", b"") for text in texts]
    return b"\n".join(lines) + b"\n"


def hostile_talk():
    """A log without compaction and title: its prompt is its name in a list, its whole conversation is the context."""
    text = "".join(PAYLOADS)
    call = {"type": "toolCall", "id": "t", "name": text, "input": {text: text}}
    said = [
        {"role": "user", "content": text},
        {"role": "assistant", "content": [{"type": "text", "text": text}, call]},
        {"role": "toolResult", "toolCallId": "t", "toolName": text, "isError": True, "content": text},
        {"role": "custom", "customType": text, "content": text},
    ]
    entries: list[dict[str, Any]] = [
        {"type": "session", "id": "t0", "timestamp": ZERO, "agent": "evil", "sender": "two"}
    ]
    entries += [
        {"type": "message", "id": f"t{at + 1}", "timestamp": ZERO, "message": what} for at, what in enumerate(said)
    ]
    entries += [
        {"type": "setting", "id": "t5", "key": text, "value": text},
        {"type": "model_change", "id": "t6", "model": text, "provider": text},
        {"type": "label", "id": "t7", "parentId": text, "targetId": "t6", "label": text},
        {"type": text, "id": "t8", "parentId": text},
    ]
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)


def hostile_header():
    """A log whose title, model and folder are hostile."""
    text = "".join(PAYLOADS)
    first = {
        "type": "session",
        "id": "c0",
        "timestamp": ZERO,
        **dict.fromkeys(("title", "cwd", "model", "agent"), text),
    }
    return json.dumps(first).encode() + b"\n"


# Commands that are tried with other arguments, print nothing here, or have nothing to replay.
OTHERWISE = ("questions", "copy", "export", "replay", "tail")
COMMANDS = [
    *(words for words in reading_commands("evil_one_1") if words[0] not in OTHERWISE),
    *((command, name) for command in ("show", "tree", "context", "tail") for name in ("evil_two_1", "evil_card_1")),
    ("tree", "evil_two_1", "--annotations"),
    ("export", "evil_two_1", "-f", "md"),
    ("show", "evil_one_1", "--full"),
    ("show", "evil_one_1", "--active"),
    ("tree", "evil_one_1", "--annotations"),
    ("tail", "evil_one_1", "-n", "5000"),
    ("ls",),
    ("search", "red"),
    ("search", "marks"),
    ("search", "lone"),
    ("doctor",),
    ("du",),
    ("gc", "--dry-run"),
    ("copy", "--all", "--to", "copies"),
    ("export", "evil_one_1", "-f", "md"),
]


@pytest.fixture
def evil(shell):
    shell.store.mkdir(mode=0o700)
    (shell.store / "evil_one_1.jsonl").write_bytes(hostile_log())
    (shell.store / "evil_two_1.jsonl").write_bytes(hostile_talk())
    (shell.store / "evil_card_1.jsonl").write_bytes(hostile_header())
    (shell.store / "\x1b]0;stray\x07.txt").write_text("x")
    return shell


def test_the_log_is_read(evil):
    """Every payload is an entry that could be read, or a reported line."""
    assert len(evil("show", "evil_one_1", "--json").rows) > 12 * len(PAYLOADS)
    assert len(evil("verify", "evil_one_1", "--json").json["damage"]) > len(PAYLOADS)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_lets_it_out(evil, words):
    """Law 13: in a pipe, not one control character or hidden character, on stdout or stderr."""
    answer = evil(*words)
    assert answer.code in (0, 4)
    assert answer.out
    assert rest(answer.out) == []
    assert rest(answer.err) == []


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_nor_on_a_terminal(evil, words):
    """Law 13: on a real terminal, in colour, nothing but wakelog's own colours and line ends."""
    answer = evil.terminal(*words, "--color", "always", env={"WAKELOG_PAGER": "cat"})
    assert answer.code in (0, 4)
    assert rest(answer.out) == []
    assert b"\r" not in answer.raw


@pytest.mark.parametrize("command", [("ls",), ("search", "red"), ("tree", "evil_one_1"), ("verify", "evil_one_1")])
def test_json_answers_are_escaped(evil, command):
    """JSON that wakelog makes of stored text is escaped; `show` and `append` print the stored bytes."""
    answer = evil(*command, "--json")
    assert answer.rows
    assert rest(answer.out) == []


@pytest.mark.parametrize("text", [*PAYLOADS, *SURROGATES])
def test_errors_are_escaped(evil, text):
    """An error repeats an argument, which may have come from a log."""
    for words in (
        ("show", text),
        ("show", f"./{text}.jsonl"),
        ("show", f"evil_one_1:no {text}"),
        ("context", "evil_one_1", "--strategy", text),
        ("search", f'"{text}'),
        (text,),
        ("ls", f"--{text}"),
        ("new", "--id", text),
        ("ls", "--limit", text),
        ("export", "evil_one_1", "-f", text),
    ):
        for more in ((), ("--json",)):
            answer = evil(*words, *more)
            assert answer.code in (2, 3), words
            assert rest(answer.err) == []
            assert answer.err.count("\n") == 1
            assert answer.err.startswith('{"error":' if more else "wakelog: ")


def test_names_of_files_are_hostile_too(evil):
    """A log with an invalid name is refused in one escaped line."""
    name = "\x1b[31mx\u202e.jsonl"
    (evil.folder / name).write_bytes(b"")
    answer = evil("show", f"./{name}")
    assert answer.code == 2
    assert rest(answer.err) == []


def test_stores_may_have_hostile_names(evil):
    """Lists and checks repeat the name of the store."""
    for words in (("ls",), ("doctor",), ("show", "nobody"), ("new",), ("du",)):
        answer = evil(*words, "--store", "./\x1b]0;x\x07\u202e")
        assert rest(answer.out) == []
        assert rest(answer.err) == []


def test_folders_may_have_hostile_names(evil):
    """Hints and headings repeat the path of the folder."""
    folder = evil.folder / "\x1b]0;x\x07\u202e"
    folder.mkdir()
    (folder / "log.jsonl").write_bytes((evil.store / "evil_one_1.jsonl").read_bytes())
    for command in ("show", "tree", "context", "tail", "verify", "doctor", "usage", "append", "head", "rename"):
        words = (command, f"{folder}/log.jsonl", *(["text"] if command in ("append", "rename") else []))
        answer = evil(*words)
        assert answer.code in (0, 4)
        assert rest(answer.out) == []
        assert rest(answer.err) == []
    saved = evil("doctor", f"{folder}/log.jsonl", "--salvage", f"{folder}/clean.jsonl")
    assert rest(saved.out) == []
    assert evil("verify", f"{folder}/clean.jsonl").code == 0
