"""Law 14 for assignments: their values reach no log, blob, index or file name; calls that contain some still run."""

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from tests.redaction.planted import TYPES, planted
from tests.runtime.rigs import Rig, asks
from wakelog.app.agent import Agent
from wakelog.decide.policy import Policy, RedactMode, policy_in_force, stored_policy
from wakelog.forking import fork
from wakelog.identity import latest
from wakelog.log.content import BlobRef, Prompt, Text, ToolCall, ToolResult
from wakelog.log.entry import ContextEntry, Custom, Head, Message, Terminated, ToolStarted
from wakelog.log.entry import SessionHeader as SessionEntry
from wakelog.ports.runtime import ToolOutcome
from wakelog.redaction.entries import KEYS_ONLY, redact_entry
from wakelog.runtime.replay.verification import replay
from wakelog.session import Session
from wakelog.stores.jsonl.store import JsonlStore
from wakelog.stores.memory import MemoryStore

VALUE = "q7Zt2LxW9vBn4Kd8Rm"
WORDS = "hunter2-x9"
LINE = f"DB_PASSWORD={VALUE}"
MARK = "DB_PASSWORD=[redacted: assignment]"
_ONLY_KEYS = {f"{kind.__name__}.{name}" for kind, names in KEYS_ONLY.items() for name in names}
_HEADER_FIELDS = ("cwd", "agent", "sender", "title", "provider", "model", "settings", "parent")


def stored(store, name):
    """Return all bytes that a store holds of a session, with all blobs."""
    refs = [BlobRef(digest=each.digest, bytes=each.bytes) for each in store.blobs.stored()]
    return b"".join([*(line.bytes for line in store.load(name)), *map(store.blobs.get, refs)])


def _is_by_keys(path):
    return any(part.split("{")[0].split("[")[0] in _ONLY_KEYS for part in path.split("/"))


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_every_string_of_every_type(kind):
    """Law 14: an assignment in any string of any entry loses its value, except where a program gets the text again."""
    for path, body in planted(kind, f"use {LINE} now"):
        store = MemoryStore()
        if isinstance(body, SessionEntry):
            session = Session.create(store, **{name: getattr(body, name) for name in _HEADER_FIELDS})
        else:
            session = Session.create(store)
            session.append(body)
        is_left = VALUE.encode() in stored(store, session.name)
        assert is_left == _is_by_keys(path), path


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_strict_has_no_exception(kind):
    """Law 14: with `strict` no string of any entry keeps a value, random or not."""
    for line in (LINE, f"DB_PASSWORD={WORDS}", f"sshpass -p {WORDS} ssh me@x", f"Authorization: Token {WORDS}"):
        for path, body in planted(kind, f"use {line} now"):
            store = MemoryStore()
            if isinstance(body, SessionEntry):
                given = {name: getattr(body, name) for name in _HEADER_FIELDS}
                session = Session.create(store, **given, redact="strict")
            else:
                session = Agent(model="demo", policy=Policy(redact="strict")).begin(store)
                # The policy of a `context` entry decides about the entry itself.
                is_context = isinstance(body, ContextEntry)
                policy = {**body.policy, "redact": "strict"} if is_context else {}
                session.append(msgspec.structs.replace(body, policy=policy) if is_context else body)
            written = stored(store, session.name)
            assert VALUE.encode() not in written, path
            assert WORDS.encode() not in written, path


@pytest.mark.slow
def test_no_value_is_on_the_disk(tmp_path):
    """Law 14: not in the log, in blobs, or in the names of files and nodes; the index is built from the log."""
    store = JsonlStore(tmp_path)
    session = Session.create(store, agent=LINE, sender=LINE, title=LINE)
    session.say(f"cat .env\n{LINE}\n")
    # Longer than a line may be, so that most of it goes into a blob.
    long = f"{LINE}\n{'words ' * 200}\n" * 15_000
    session.append(Message(message=Prompt(content=(Text(text=long),))))
    session.append(Custom(custom_type="x", data={"client_secret": VALUE, "deep": [{"password": VALUE}]}))
    session.rename(LINE)
    session.append(Terminated(reason=LINE))
    for folder, folders, files in os.walk(tmp_path):
        assert VALUE not in " ".join((*folders, *files)).lower()
        for file in files:
            assert VALUE.encode() not in (Path(folder) / file).read_bytes(), file
            assert not os.path.islink(Path(folder) / file) or VALUE not in os.readlink(Path(folder) / file)


def test_a_session_is_found_by_the_names_it_was_given():
    """Law 14: redaction of a name depends on the policy; agent and sender find their session under every policy."""
    for rule in ("off", "keys", "assignments", "strict"):
        for agent in (LINE, f"DB_PASSWORD={WORDS}"):
            store = MemoryStore()
            session = Session.create(store, agent=agent, sender="me", redact=rule)
            assert latest(store, agent, "me") == session.name
            assert latest(store, agent, "you") is None


def _output(monkeypatch, rig, text, shown=""):
    async def leaking(tool, call):
        call.show(shown)
        return ToolOutcome(text)

    look = next(tool for tool in rig.outside.tools if tool.name == "look")
    monkeypatch.setattr(type(look), "run", leaking)


def test_assignments_in_tool_output_are_redacted(monkeypatch):
    """Law 14: `cat .env` leaves no value in the live output, in the result or in its blob; the names stay."""
    rig = Rig({"Look.": [asks(("look", 1)), {"text": "Seen."}]}, clip=1_000)
    _output(monkeypatch, rig, f"A=1\n{LINE}\nB=2\n" * 100, shown=f"live\n{LINE}\nmore\n")
    rig.say("Look.")
    (result,) = [value.message for value in rig.values(Message) if isinstance(value.message, ToolResult)]
    assert MARK in result.text
    assert result.blob is not None
    assert rig.store.blobs.get(result.blob).decode() == f"A=1\n{MARK}\nB=2\n" * 100
    assert VALUE.encode() not in stored(rig.store, "s")
    journaled = "".join(text for kind, text in rig.events if kind == "journal")
    assert VALUE not in journaled
    assert MARK in journaled
    assert asyncio.run(replay(rig.store, "s")).ok


def test_a_reply_is_redacted_as_it_streams():
    """Law 14: streamed text included, in pieces of three characters; and the log replays."""
    rig = Rig({"Go.": [{"text": f"Use {LINE} there.", "deltaChars": 3, "thinking": f"It is {LINE}."}]})
    assert rig.say("Go.").text == f"Use {MARK} there."
    shown = "".join(text for kind, text in rig.events if kind in ("shown", "journal"))
    assert VALUE[:6] not in shown
    assert VALUE.encode() not in stored(rig.store, "s")
    assert asyncio.run(replay(rig.store, "s")).ok


def test_a_call_that_assigns_a_value_is_run():
    """Law 14: the input of a call keeps its values, so an edit that contains `password = …` works."""
    rig = Rig({"Pay.": [asks(("pay", f'password = "{VALUE}"')), {"text": "Done."}]})
    rig.say("Pay.")
    assert len(rig.values(ToolStarted)) == 1
    (result,) = [value.message for value in rig.values(Message) if isinstance(value.message, ToolResult)]
    assert result.effective_status != "denied"
    calls = [part for value in rig.values(Message) for part in value.message.parts if isinstance(part, ToolCall)]
    assert VALUE in str(calls[0].input)
    assert asyncio.run(replay(rig.store, "s")).ok


def test_the_policy_decides_what_is_redacted():
    """Law 14: `keys` leaves assignments, `assignments` words, `off` everything; forks follow the policy."""
    left: dict[RedactMode, tuple[str, ...]] = {
        "strict": (),
        "assignments": (WORDS,),
        "keys": (VALUE, WORDS),
        "off": (VALUE, WORDS),
    }
    said = f"{LINE}\nDB_PASSWORD={WORDS}"
    for rule, values in left.items():
        store = MemoryStore()
        session = Agent(model="demo", system=f"Use {said}.", policy=Policy(redact=rule)).begin(store, title=said)
        session.say(said)
        for value in (VALUE, WORDS):
            assert (value.encode() in stored(store, session.name)) == (value in values), rule
            assert (value.encode() in stored(store, fork(session).name)) == (value in values)


def test_the_mode_is_that_of_the_head():
    """Law 2: after a change of the policy, a move of the head or by another writer, entries follow the new head."""
    store = MemoryStore()
    session = Agent(model="demo", policy=Policy(redact="strict")).begin(store)
    first = session.say(f"DB_PASSWORD={WORDS}1")
    Session.get(store, session.name).append(ContextEntry(policy={"redact": "keys"}))
    session.say(f"DB_PASSWORD={WORDS}2")
    session.append(Head(target_id=first.id))
    session.say(f"DB_PASSWORD={WORDS}3")
    kept = [WORDS + number for number in "123" if f"{WORDS}{number}".encode() in stored(store, session.name)]
    assert kept == [f"{WORDS}2"]


def test_a_call_with_a_secret_is_not_run_under_strict():
    """Law 14: with `strict` the input of a call is no exception: the call is denied, and the model is told why."""
    rig = Rig({"Pay.": [asks(("pay", f"sshpass -p {WORDS} ssh me@x")), {"text": "Done."}]}, redact="strict")
    rig.say("Pay.")
    assert rig.values(ToolStarted) == []
    (result,) = [value.message for value in rig.values(Message) if isinstance(value.message, ToolResult)]
    assert result.effective_status == "denied"
    assert WORDS.encode() not in stored(rig.store, "s")
    assert asyncio.run(replay(rig.store, "s")).ok


def test_a_stored_boolean_is_read_as_a_word():
    """Law 11: true reads as `keys`, false as `off`; the next `context` entry writes the word."""
    for said, word in ((True, "keys"), (False, "off")):
        policy = policy_in_force(ContextEntry(policy={**stored_policy(Policy()), "redact": said}))
        assert policy.redact == word
        assert stored_policy(policy)["redact"] == word
        assert Policy(redact=said).redact == word  # type: ignore[arg-type]
    assert policy_in_force(None).redact == policy_in_force(ContextEntry()).redact == "assignments"


@pytest.mark.parametrize("said", [True, False, None])
def test_an_older_log_keeps_its_assignments_and_replays(monkeypatch, said):
    """Law 11: where the stored policy has a boolean, values of assignments stay as they were."""
    rig = Rig({"Look.": [asks(("look", 1)), {"text": f"It says {LINE}."}]})
    record = next(value for value in rig.values(ContextEntry))
    policy = {key: value for key, value in record.policy.items() if key != "redact"}
    policy |= {} if said is None else {"redact": said}
    rig.session.append(msgspec.structs.replace(record.without_envelope, policy=policy))
    _output(monkeypatch, rig, LINE)
    rig.say("Look.")
    assert (VALUE.encode() in stored(rig.store, "s")) == (said is not None)
    found = asyncio.run(replay(rig.store, "s"))
    assert (found.ok, found.reason, found.divergence) == (True, "", None)


def test_a_body_without_a_secret_is_not_copied():
    """Hot path: an entry without a secret is returned as the same object."""
    body = Message(message=Prompt(content=(Text(text="the password is in the vault: token = next(tokens)"),)))
    assert redact_entry(body) is body
