"""ST-9: histories of Aider become sessions; prompts, answers and output are told apart where Aider itself cannot."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange.aider_histories import (
    HEAD,
    NAME,
    answered,
    bodies,
    chat,
    conversation,
    customs,
    said,
    sessions,
    start,
    typed,
)
from tests.exchange.samples import EXPECTED, MemoryFile, account_of, entries_of, needs_samples, sample
from wakelog.exchange.aider import reader
from wakelog.exchange.aider.entries import input_kind, reply_parts
from wakelog.exchange.aider.records import ChatRecord, chat_records
from wakelog.exchange.importing import import_session
from wakelog.exchange.records import BadRecord
from wakelog.exchange.sessions import ImportedEntry, SkippedRecords
from wakelog.log.codec import encode
from wakelog.log.content import Prompt, Reply, Text, Thinking, Usage
from wakelog.log.entry import Compaction, Message, ModelChange
from wakelog.stores.memory import MemoryStore

FENCED = (
    "Look:\n\n```markdown\n\n#### A heading  \n\n> quoted  \n\n"
    "# aider chat started at 2025-01-01 00:00:00\n\n```\n\nDone."
)

# ── detection ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (chat(), True),
        (start(), True),
        ("left over\n" + chat(), True),
        ("The line\n\n# aider chat started at 2026-03-01 10:00:00\n\nbegins a chat.\n", False),
        ("# aider chat started at noon\n", False),
        ("# A heading\n\n#### Another\n> quoted\n", False),
        ("\n# 2026-03-01 10:00:00.123456\n+Hello\n\n# 2026-03-01 10:00:01\n+/add a.py\n", True),
        ("\n# 2026-03-01 10:00:00.123456\n+SELECT 1;\n", False),
        ("# 2026-03-01 10:00:00\n\nA diary\n", False),
        ("TO LLM 2026-03-01T10:00:00\n-------\nSYSTEM Act\n", True),
        ("TO LLM 2026-03-01T10:00:00\nSYSTEM Act\n", False),
        ('{"type": "session"}\n', False),
        ("", False),
    ],
)
def test_it_is_recognised_by_its_content(text, expected):
    assert reader.is_aider_text(text) is expected


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────


def test_each_run_is_a_session():
    text = chat(typed("One"), answered("1")) + chat(
        said("Restored previous conversation history."), typed("Two"), second=5
    )
    (one, _), (two, _) = sessions(text)
    assert (one.origin.version, one.model, one.agent, one.origin.path) == ("0.86.2", "openai/gpt-x", "aider", NAME)
    assert (one.started_ms, two.started_ms) == (1_772_359_200_000, 1_772_359_205_000)
    assert (one.origin.parent, two.origin.parent) == ("", one.origin.id)
    assert one.origin.id.startswith("2026-03-01T10:00:00-")


def test_ids_of_sessions_do_not_depend_on_the_file_and_differ_for_equal_runs():
    """A moved file, one that lost older chats, and two runs that began in one second."""
    last = chat(typed("Two"), answered("2"), second=5)
    whole = [session.origin.id for session, _ in sessions(chat(typed("One")) + last + last)]
    assert whole[1:] == [session.origin.id for session, _ in sessions(last + last)]
    assert len(set(whole)) == 3
    other = sessions(chat(typed("Other"), second=5))[0][0].origin.id
    assert other not in whole


def test_runs_without_a_prompt_are_counted_with_a_neighbour():
    text = start() + said("Bye") + chat(typed("One"), second=1) + start(2) + said("a", "b")
    ((_, items),) = sessions(text)
    skipped = [item for item in items if isinstance(item, SkippedRecords)]
    assert [(item.kind, item.count) for item in skipped] == [("run", 2), ("run", 3)]
    assert list(reader.read_sessions(MemoryFile(start().encode(), NAME))) == []


def test_a_session_that_is_not_read_to_its_end_does_not_disturb_the_next():
    text = chat(typed("One"), answered("1")) + chat(typed("Two"), second=1)
    found = [session.started_ms for session in reader.read_sessions(MemoryFile(text.encode(), NAME))]
    assert len(found) == 2


def test_importing_a_grown_history_adds_only_what_is_new():
    store = MemoryStore()
    begun = chat(typed("One"), answered("1"))
    for text, added in ((begun, 8), (begun, 0), (begun + typed("Two") + answered("2"), 3)):
        source = MemoryFile(text.encode(), NAME)
        assert [import_session(store, session).added for session in reader.read_sessions(source)] == [added]


# ── records ──────────────────────────────────────────────────────────────────────────────────────


def test_usage_that_is_written_after_an_import():
    """The answer has the same id without it, and the line counts as mapped only if the answer has it."""
    whole = chat(typed("Go"), answered("Ok", "Tokens: 10 sent, 5 received."))
    ((_, before),) = sessions(whole[: whole.index("> Tokens")])
    ((_, after),) = sessions(whole)
    (early,), (late,) = [[item.body for item in found if _is_reply(item)] for found in (before, after)]
    assert early.id == late.id
    assert (early.message.usage, late.message.usage) == (None, Usage(input_tokens=10, output_tokens=5))
    assert account_of(after)["mapped"] == account_of(before)["mapped"] + 1
    ((_, without),) = sessions(chat(typed("Go"), said("Tokens: 10 sent, 5 received.")))
    assert account_of(without)["mapped"] == account_of(before)["mapped"] - 1


def _is_reply(item):
    body = getattr(item, "body", None)
    return isinstance(body, Message) and isinstance(body.message, Reply)


@pytest.mark.parametrize("end", ["# aider", "# aider chat star", "# aider chat started at 2026-0"])
def test_the_beginning_of_a_later_chat_that_is_not_written_yet_is_no_answer(end):
    whole = chat(typed("Go"), answered("Ok"))
    ((_, before),) = sessions(whole)
    ((_, torn),) = sessions(f"{whole}\n{end}")
    assert torn[:-1] == before
    assert isinstance(torn[-1], BadRecord)
    ((_, alone),) = sessions(chat(typed("Go"), answered(f"Ok\n\n{end}", None)))
    assert [item.body.message.text for item in alone if _is_reply(item)] == [f"Ok\n\n{end}"]


def test_a_chat_becomes_prompts_replies_and_output():
    text = chat(
        typed("First\n\n  third line"), answered("An *answer*\n\nwith lines"), typed("/add a.py"), said("Added a.py")
    )
    entries = bodies(text)
    assert conversation(entries) == [("user", "First\n\n  third line"), ("assistant", "An *answer*\n\nwith lines")]
    assert customs(entries, "aider:output") == [*HEAD, "Tokens: 1.2k sent, 30 received.", "Added a.py"]
    assert customs(entries, "aider:command") == ["/add a.py"]
    assert [entry.model for entry in entries if isinstance(entry, ModelChange)] == ["openai/gpt-x"]
    (reply,) = [entry.message for entry in entries if isinstance(entry, Message) and isinstance(entry.message, Reply)]
    assert (reply.model, reply.usage) == ("openai/gpt-x", Usage(input_tokens=1200, output_tokens=30))
    assert [entry.parent_id for entry in entries] == [None, *(entry.id for entry in entries[:-1])]


@pytest.mark.parametrize(
    "answer",
    [
        FENCED,
        "#### A heading in the answer\n\n#### Another one\n> a quotation",
        "> An answer that begins with a quotation",
        "~~~\n\n#### in a block  \n~~~\nend",
        "```markdown\n```bash\nls\n```\n\n#### nested  \n\n```\nend",
        "Text\n#### without an empty line  ",
        "Python:\n```python\n\n# aider chat started at 2026-03-01 10:00:59\n\nx = 1\n```",
        "one\n\n\ntwo\n   \nthree",
    ],
)
def test_marks_in_an_answer_are_text(answer):
    entries = bodies(chat(typed("Go"), answered(answer), typed("Next"), answered("Good")))
    assert conversation(entries) == [
        ("user", "Go"),
        ("assistant", answer.strip()),
        ("user", "Next"),
        ("assistant", "Good"),
    ]


@pytest.mark.parametrize(
    ("after", "output"),
    [
        (said("Tokens: 5 sent, 6 received."), ["Tokens: 5 sent, 6 received."]),
        (said("Model openai/gpt-x has hit a token limit!"), ["Model openai/gpt-x has hit a token limit!"]),
        ("", []),
    ],
)
def test_a_code_block_that_is_left_open_ends_with_its_answer(after, output):
    entries = bodies(
        chat(typed("Go"), answered("```python\nx = 1", None), after, typed("Next"), answered("Good", None))
    )
    assert [text for _, text in conversation(entries)] == ["Go", "```python\nx = 1", "Next", "Good"]
    assert customs(entries, "aider:output") == [*HEAD, *output]


def test_a_later_run_ends_a_code_block():
    text = chat(typed("Go"), answered("```\nx", None)) + chat(typed("Again"), second=9)
    assert [conversation(entries_of_items(items)) for _, items in sessions(text)] == [
        [("user", "Go"), ("assistant", "```\nx")],
        [("user", "Again")],
    ]


def entries_of_items(items):
    return [item.body for item in items if isinstance(item, ImportedEntry)]


def test_a_history_without_spaces_at_the_ends_of_lines_is_read():
    """Some editors and commit hooks remove them."""
    text = chat(typed("Go\nnow"), answered(FENCED), typed("Next"), answered("Good"))
    stripped = "\n".join(line.rstrip() for line in text.split("\n"))
    texts = [text for _, text in conversation(bodies(stripped))]
    assert texts == ["Go\nnow", "\n".join(line.rstrip() for line in FENCED.split("\n")), "Next", "Good"]


def test_lines_of_windows_are_read():
    text = chat(typed("Go\nnow"), answered("One\n\ntwo")).replace("\n", "\r\n")
    assert conversation(bodies(text)) == [("user", "Go\nnow"), ("assistant", "One\n\ntwo")]


def test_an_output_of_several_lines_is_one():
    several = "> Tokens: 9k sent, 1k cache write, 2k cache hit, 5 received.\nCost: $0.02 message, $0.05 session.  \n"
    entries = bodies(chat(typed("Go"), answered("Good", None), several, "> rm x\nls  \n", typed("Next")))
    assert customs(entries, "aider:output")[len(HEAD) :] == [
        "Tokens: 9k sent, 1k cache write, 2k cache hit, 5 received.\nCost: $0.02 message, $0.05 session.",
        "rm x\nls",
    ]
    (reply,) = [entry.message for entry in entries if isinstance(entry, Message) and isinstance(entry.message, Reply)]
    assert reply.usage == Usage(
        input_tokens=6000, output_tokens=5, cache_read_tokens=2000, cache_write_tokens=1000, cost_micros=20_000
    )
    assert [text for _, text in conversation(entries)] == ["Go", "Good", "Next"]


def test_the_command_line_of_aider_may_have_several_lines():
    """Aider says how it was started, with the prompt of `--message`, before anything else."""
    command = "> /bin/aider --message One\n\ntwo\n> three\n#### four\nfive  \n"
    entries = bodies(start() + command + said(*HEAD) + typed("One\n\ntwo") + answered("Good"))
    assert customs(entries, "aider:output")[:2] == [
        "/bin/aider --message One\n\ntwo\n> three\n#### four\nfive",
        HEAD[0],
    ]
    assert [text for _, text in conversation(entries)] == ["One\n\ntwo", "Good"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("/add x", "command"),
        ("!ls", "command"),
        ("/ask", "command"),
        ("", "blank"),
        ("Add file to the chat? (Y)es/(N)o/(A)ll/(S)kip all/(D)on't ask again [Yes]: all", "answer"),
        ("/ask What is it?", None),
        ("/architect Make it", None),
        ("Is it /add?", None),
    ],
)
def test_only_what_is_sent_to_the_model_is_a_prompt(text, kind):
    entries = bodies(chat(typed(text), typed("Go")))
    assert len([text for role, text in conversation(entries) if role == "user"]) == (1 if kind else 2)
    assert kind is None or customs(entries, f"aider:{kind}") == [text or "<blank>"]


def test_clearing_ends_the_context():
    entries = bodies(chat(typed("One"), answered("1"), typed("/clear"), said("Done"), typed("Two")))
    (compaction,) = [entry for entry in entries if isinstance(entry, Compaction)]
    assert (compaction.summary, compaction.first_kept_entry_id, compaction.trigger) == ("", None, "clear")


TAG = "thinking-content-7bbeb8e1441453ad999a0bbba8a46d4b"


@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        (f"<{TAG}>\n\nHm\n\n</{TAG}>\n\nSo", (Thinking(thinking="Hm"), Text(text="So"))),
        (f"<{TAG}>\n\nHm\n\n</think>\n\nSo", (Thinking(thinking="Hm"), Text(text="So"))),
        (f"<{TAG}>\n\nHm", (Thinking(thinking="Hm"),)),
        ("<think>\nHm\n</think>\nSo", (Thinking(thinking="Hm"), Text(text="So"))),
        ("Use <think>x</think> there", (Text(text="Use <think>x</think> there"),)),
        (
            "--------------\n► **THINKING**\n\nHm\n\n------------\n► **ANSWER**\n\nSo",
            (Thinking(thinking="Hm"), Text(text="So")),
        ),
    ],
)
def test_reasoning_is_told_from_the_answer(answer, parts):
    entries = bodies(chat(typed("Go"), answered(answer)))
    (reply,) = [entry.message for entry in entries if isinstance(entry, Message) and isinstance(entry.message, Reply)]
    assert reply.content == parts


@pytest.mark.parametrize(
    "text",
    [
        "-" * 300_000,
        f"<{TAG}>x{' ' * 300_000}y",
        f"<think>x{' ' * 300_000}y",
        "----------\n► **THINKING**\n" * 20_000,
        "(Y)es/(N)o" * 30_000,
        "(Y)es/(N)o [" * 30_000,
    ],
)
def test_long_runs_take_no_time(text):
    """The time is linear: a pattern that is tried at each place would take minutes."""
    assert input_kind(text) == "prompt"
    assert len(reply_parts(text)) == 1


# ── samples and properties ───────────────────────────────────────────────────────────────────────

DIFFERENCES = {"chats": 2}
"""Two of the four runs have neither a prompt nor an answer: their records are counted with a neighbour."""


@needs_samples
def test_the_facts_of_the_sample_of_a_chat_history():
    name = "aider/zen/.aider.chat.history.md"
    found = [list(session.items) for session in reader.read_sessions(sample(name))]
    records = list(chat_records(sample(name).lines()))
    kinds = [record.kind for record in records if isinstance(record, ChatRecord)]
    assert (kinds.count("start"), kinds.count("output")) == (EXPECTED[name]["chats"], EXPECTED[name]["tool_lines"])
    typed_lines = [line for record in records for line in record.text.split("\n") if record.kind == "input"]
    assert len(typed_lines) == EXPECTED[name]["user_lines"]
    assert len(found) == EXPECTED[name]["chats"] - DIFFERENCES["chats"]
    assert sum(sum(account_of(items).values()) for items in found) == len(records)


@needs_samples
@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("aider.chat.history.md", [2, 2, 2]),
        ("crash-in-stream.chat.history.md", [2, 2, 2, 1]),
    ],
)
def test_sessions_of_the_real_tool(name, texts):
    found = [
        conversation(entries_of(session)) for session in reader.read_sessions(sample(f"made-here/aider-0.86.2/{name}"))
    ]
    assert [len(messages) for messages in found] == texts
    assert found[0] == [("user", "First prompt [[say: first answer]]"), ("assistant", "first answer")]


appended = st.one_of(
    st.sampled_from(["Go", "/clear", "Two\nlines", "#### x", "> y", "```\na", ""]).map(typed),
    st.sampled_from(["Good", FENCED, "> q", "```\nopen", "#### h  "]).map(answered),
    st.sampled_from(["Good", "```\nopen", f"<{TAG}>\nHm"]).map(lambda text: answered(text, None) + typed("Next")),
    st.sampled_from(["Done", "", "Model: m with x", "^C again to exit"]).map(said),
    st.integers(0, 59).map(start),
)
"""What Aider appends at one time, or directly one after the other."""
pieces = st.one_of(
    st.sampled_from(["", "#### ", "> ", "# ", "```", "Go", "Hm"]).map(lambda text: f"{text}\n"),
    st.sampled_from(["Go", "/clear", "Two\nlines", "#### x", "> y", "```\na"]).map(typed),
    st.sampled_from(["Good", FENCED, "> q", "```\nopen", "#### h  "]).map(answered),
    st.sampled_from(["Good", "```\nopen", f"<{TAG}>\nHm"]).map(lambda text: answered(text, None)),
    st.sampled_from(["Done", "", "Model: m with x", "^C again to exit"]).map(said),
    st.integers(0, 59).map(start),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(appended, max_size=10))
def test_a_history_that_has_grown_gives_the_entries_it_gave_before(found):
    """Rule 2 of `sessions.py`: the same entries, followed by new ones."""

    def entries(text):
        return [[item.body for item in items if isinstance(item, ImportedEntry)] for _, items in sessions(text)]

    whole = [body for session in entries("".join(found)) for body in session]
    ids = [body.id for body in whole]
    assert len(set(ids)) == len(ids)
    for body in whole:
        encode(body)
    for count in range(len(found)):
        begun = [body for session in entries("".join(found[:count])) for body in session]
        assert begun == whole[: len(begun)]


@settings(max_examples=60, deadline=None)
@given(st.lists(pieces, max_size=8), st.binary(max_size=20), st.integers(0, 400))
def test_no_content_makes_the_reader_fail_and_every_record_is_counted(found, garbage, at):
    raw = "".join(found).encode()
    raw = raw[:at] + garbage + raw[at:]
    source = MemoryFile(raw, NAME)
    counted = sum(sum(account_of(session.items).values()) for session in reader.read_sessions(source))
    records = list(chat_records(source.lines()))
    has_session = any(isinstance(record, ChatRecord) and record.kind in ("input", "answer") for record in records)
    assert reader.is_aider_text(raw.decode("utf-8", "replace")) in (True, False)
    if not raw.decode("utf-8", "replace").lstrip("\n").startswith(("TO LLM", "# 20")):
        assert counted == (len(records) if has_session else 0)


def test_a_prompt_is_a_prompt_of_a_person():
    entries = bodies(chat(typed("Go")))
    assert [entry.message for entry in entries if isinstance(entry, Message)] == [Prompt(content="Go")]
