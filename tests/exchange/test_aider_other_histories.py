"""ST-9: the histories of Aider with inputs and with requests to the model."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange.aider_histories import answered, chat, conversation, sessions, typed
from tests.exchange.samples import EXPECTED, MemoryFile, account_of, needs_samples, sample
from tests.exchange.test_aider import entries_of_items
from wakelog.exchange.aider import inputs, reader
from wakelog.exchange.sessions import ImportedEntry
from wakelog.log.entry import Message


def test_prompts_have_the_times_of_the_input_history():
    typed_at = b"\n# 2026-03-01 10:00:03.250000\n+n\n\n# 2026-03-01 10:00:04.500000\n+Two\n+lines\n+\n"
    ((_, items),) = sessions(chat(typed("Unknown"), typed("Two\nlines"), answered("2")), _aider_input_history=typed_at)
    entries = entries_of_items(items)
    times = [entry.timestamp for entry in entries if isinstance(entry, Message)]
    assert times == ["2026-03-01T10:00:00.000Z", "2026-03-01T10:00:04.500Z", "2026-03-01T10:00:04.500Z"]
    without = [
        item.body.id
        for _, items in sessions(chat(typed("Unknown"), typed("Two\nlines"), answered("2")))
        for item in items
    ]
    assert [entry.id for entry in entries] == without


def test_an_input_history_is_a_session_of_prompts():
    raw = b"\n# 2026-03-01 10:00:03.250000\n+One\n+more\n\n# 2026-03-01 10:00:04\n+/add x\nlost\n"
    (session,) = reader.read_sessions(MemoryFile(raw, ".aider.input.history"))
    items = list(session.items)
    assert conversation(entries_of_items(items)) == [("user", "One\nmore")]
    assert account_of(items) == {"mapped": 1, "verbatim": 1, "skipped": 0, "bad": 1}


def test_an_input_is_split_once_however_many_prompts_it_is_compared_with(monkeypatch):
    split = 0
    comparable = inputs._comparable

    def counted(text):
        nonlocal split
        split += 1
        return comparable(text)

    monkeypatch.setattr(inputs, "_comparable", counted)
    others = "".join(f"\n# 2026-03-01 10:00:{second:02}.000000\n+other\n" for second in range(40))
    sessions(chat(*[typed("Go") + answered("Ok")] * 30), _aider_input_history=others.encode())
    assert split == 40 + 30


def llm(time, messages, response=None):
    lines = [f"TO LLM 2026-03-01T10:00:{time:02}"]
    for role, text in messages:
        lines += ["-------", *(f"{role} {line}" for line in text.splitlines())]
    if response is not None:
        lines += [
            f"LLM RESPONSE 2026-03-01T10:00:{time + 1:02}",
            *(f"ASSISTANT {line}" for line in response.splitlines()),
        ]
        lines += [] if response else [""]
    return "\n".join(lines) + "\n"


FIRST = [("SYSTEM", "Act"), ("USER", "a.py:\n\nx = 1"), ("ASSISTANT", "Ok."), ("USER", "Go\n\nReminder")]
SECOND = [("SYSTEM", "Act"), ("USER", "Go"), ("ASSISTANT", "Went\n-------\nUSER x"), ("USER", "Again")]
THIRD = [("SYSTEM", "Act"), ("USER", "Something else")]
LLM = [llm(0, FIRST, "Went\n-------\nUSER x"), llm(2, SECOND, "Done"), llm(4, SECOND), llm(6, THIRD, "")]


def test_an_llm_history_gives_each_message_once():
    (one, two) = [
        (session, list(session.items)) for session in reader.read_sessions(MemoryFile("".join(LLM).encode(), "x"))
    ]
    assert conversation(entries_of_items(one[1])) == [
        ("user", "Go\n\nReminder"),
        ("assistant", "Went\n-------\nUSER x"),
        ("user", "Again"),
        ("assistant", "Done"),
    ]
    notes = [entry.message.text for entry in entries_of_items(one[1]) if isinstance(entry, Message)]
    assert "a.py:\n\nx = 1" in notes
    assert account_of(one[1]) == {"mapped": 5 + 1, "verbatim": 2, "skipped": 2 + 4, "bad": 0}
    assert conversation(entries_of_items(two[1])) == [("user", "Something else")]
    assert account_of(two[1]) == {"mapped": 1, "verbatim": 1, "skipped": 1, "bad": 0}


def test_an_llm_history_that_has_grown_gives_the_entries_it_gave_before():
    def ids(text):
        found = [list(session.items) for session in reader.read_sessions(MemoryFile(text.encode(), "x"))]
        return [item.body.id for items in found for item in items if isinstance(item, ImportedEntry)]

    whole = ids("".join(LLM))
    for count in range(1, len(LLM)):
        begun = ids("".join(LLM[:count]))
        assert begun == whole[: len(begun)]


@needs_samples
def test_the_facts_of_the_sample_of_an_input_history():
    name = "aider/zen/.aider.input.history"
    (session,) = reader.read_sessions(sample(name))
    items = list(session.items)
    assert account_of(items) == {"mapped": 2, "verbatim": EXPECTED[name]["inputs"] - 2, "skipped": 0, "bad": 0}


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.sampled_from([*LLM, "-------\n", "USER x\n", "TO LLM 2026-03-01T10:00:00\n", "LLM RESPONSE x\n"]), max_size=8
    )
)
def test_no_llm_history_makes_the_reader_fail(found):
    text = "TO LLM 2026-03-01T10:00:00\n-------\nUSER x\n" + "".join(found)
    for session in reader.read_sessions(MemoryFile(text.encode(), "x")):
        assert sum(account_of(session.items).values()) >= 0
