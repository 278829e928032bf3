"""Planted bugs in `channels/`: displayed text, and when it counts as delivered."""

from tests.mutants.mutant import Mutant

HELD = "tests/channels/test_in_process_memory.py::TestHeld"
CALLBACK = "tests/channels/test_in_process_callback.py"
TERMINAL = "tests/channels/test_terminal.py"

IN_CHANNELS = (
    Mutant(
        "a repeat is shown twice",
        "RUN-9",
        "channels/offsets.py::ShownText.new_part",
        "text[size - offset :]",
        "text",
        (
            f"{HELD}::test_a_reply_delivered_again",
            f"{CALLBACK}::TestCallback::test_a_reply_delivered_again",
            f"{TERMINAL}::TestTerminal::test_a_reply_delivered_again",
        ),
    ),
    Mutant(
        "a gap in the offsets of a reply is not noticed",
        "law 11",
        "channels/offsets.py::ShownText.new_part",
        "not 0 <= offset <= size",
        "offset < 0",
        (f"{HELD}::test_a_gap_is_refused", f"{TERMINAL}::TestTerminal::test_a_gap_is_refused"),
    ),
    Mutant(
        "other text at an offset that was shown is accepted",
        "law 11",
        "channels/offsets.py::ShownText._compare",
        "shown != repeated",
        "len(shown) != len(repeated)",
        (f"{HELD}::test_a_contradiction_is_refused",),
    ),
    Mutant(
        "a replaced reply keeps its old offsets",
        "RUN-8",
        "channels/offsets.py::ShownText.reset",
        "self._sizes.pop(reply_id, None)",
        "",
        (f"{HELD}::test_reset_starts_from_nothing", f"{TERMINAL}::TestTerminal::test_reset_starts_from_nothing"),
    ),
    Mutant(
        "a second begin forgets the displayed text",
        "RUN-8",
        "channels/terminal.py::TerminalChannel.begin",
        "",
        "self._shown.reset(reply_id)",
        (f"{TERMINAL}::TestTerminal::test_a_later_attempt_goes_on",),
    ),
    Mutant(
        "text counts as displayed before it is written",
        "RUN-9",
        "channels/terminal.py::TerminalChannel.delta",
        "self._print(fresh)",
        'self._shown.add(reply_id, fresh)\nself._print(fresh)\nfresh = ""',
        (f"{TERMINAL}::test_unwritten_text_is_still_undelivered",),
    ),
    Mutant(
        "bytes that were not written count as written",
        "RUN-9",
        "channels/terminal.py::_write_all",
        "raise ...",
        "return",
        (f"{TERMINAL}::test_a_stream_that_would_block_is_an_error",),
    ),
    Mutant(
        "the rest of a short write is lost",
        "law 4",
        "channels/terminal.py::_write_all",
        "view = view[written:]",
        "break",
        (f"{TERMINAL}::test_short_writes_are_finished",),
    ),
    Mutant(
        "text is buffered before it is written",
        "law 5",
        "channels/terminal.py::TerminalChannel._put",
        "if binary is None:\n    ...\nelse:\n    ...\nself._out.flush()",
        "if binary is None:\n    ...\nelse:\n    ...",
        (f"{TERMINAL}::test_every_byte_is_written_before_delta_returns",),
    ),
    Mutant(
        "replies reach the terminal without escaping",
        "law 13",
        "channels/terminal.py::TerminalChannel._print",
        "map(self._clean, others)",
        "others",
        (f"{TERMINAL}::test_hostile_text_becomes_visible",),
    ),
    Mutant(
        "the split of a stream changes the displayed text",
        "law 13",
        "channels/terminal.py::TerminalChannel._print",
        "self._line",
        '""',
        (f"{TERMINAL}::test_hostile_text_becomes_visible", f"{TERMINAL}::TestTerminal::test_every_cut_in_two"),
    ),
    Mutant(
        "an async callback is not awaited",
        "RUN-9",
        "channels/in_process.py::CallbackChannel._call",
        "await answer",
        "answer.close()",
        (f"{CALLBACK}::test_an_async_function_is_waited_for",),
    ),
    Mutant(
        "text that the callback refused counts as delivered",
        "RUN-9",
        "channels/in_process.py::CallbackChannel.delta",
        "if fresh: ...",
        "if fresh:\n    self._shown.add(reply_id, fresh)\n    ...",
        (f"{CALLBACK}::test_a_failed_event_is_given_again",),
    ),
)
