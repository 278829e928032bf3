"""Mutants in `cli/chat/`: what is shown, what is hidden, what a key does, and what a chat leaves in the log."""

from tests.mutants.mutant import Mutant

BLOCKS = "tests/cli/chat/test_blocks.py"
TALK = "tests/cli/chat/test_talk.py"
DRAWING = "tests/cli/chat/test_drawing.py"
CHAT = "tests/cli/chat/test_chat.py"
GOING_ON = "tests/cli/chat/test_going_on.py"
PICKING = "tests/cli/chat/test_picking.py"
_ROOM = "cli/chat"

IN_CHAT = (
    Mutant(
        "a block leaves before its line has ended",
        "RUN-13",
        f"{_ROOM}/blocks.py",
        "        if not others:\n            return []",
        "        if not others:\n            return self.finish()",
        (
            f"{BLOCKS}::test_whatever_the_cuts_the_same_blocks",
            f"{BLOCKS}::test_a_block_that_has_left_is_never_taken_back",
        ),
    ),
    Mutant(
        "a fence ends at a blank line",
        "RUN-13",
        f"{_ROOM}/blocks.py",
        "        if self._fence is not None:\n            return self._take_fenced",
        "        if self._fence is not None and line.strip():\n            return self._take_fenced",
        (f"{BLOCKS}::test_blocks",),
    ),
    Mutant(
        "what was streamed is shown again with the reply",
        "law 5",
        f"{_ROOM}/replies.py",
        "        left = dict(self._seen)",
        "        left = dict.fromkeys(self._seen, 0)",
        (
            f"{TALK}::test_seen_as_it_comes_or_read_afterwards_the_same_is_shown",
            f"{TALK}::test_what_is_unfinished_is_live",
        ),
    ),
    Mutant(
        "pieces that come early are lost",
        "law 5",
        f"{_ROOM}/talk.py",
        "            self._early.setdefault(journal, []).append(delta)",
        "            pass",
        (f"{TALK}::test_pieces_that_come_before_their_call_wait_for_it",),
    ),
    Mutant(
        "a reply that starts over goes on in silence",
        "law 5",
        f"{_ROOM}/talk.py",
        '*([Notice("cut off there; starting over", "warn")] if begun else ())',
        "",
        (f"{TALK}::test_a_cut_reply_that_begins_again",),
    ),
    Mutant(
        "a journal that begins again is read from where it was",
        "law 5",
        f"{_ROOM}/watching.py",
        "            self._had.pop(reply_id, None)",
        "            pass",
        ("tests/cli/chat/test_watching.py::test_a_journal_that_begins_again_is_read_again",),
    ),
    Mutant(
        "what rich made of a block is trusted",
        "law 13",
        f"{_ROOM}/markdown.py",
        "(visible(segment.text), segment.style)",
        "(segment.text, segment.style)",
        (f"{DRAWING}::test_nothing_stored_reaches_a_terminal_raw",),
    ),
    Mutant(
        "HTML is swallowed",
        "RUN-13",
        f"{_ROOM}/markdown.py",
        '{"html": False}',
        '{"html": True}',
        (f"{DRAWING}::test_html_is_text",),
    ),
    Mutant(
        "what is pasted is shown as it is",
        "law 13",
        f"{_ROOM}/typed.py",
        "        if visible(line) == line:",
        "        if True:",
        ("tests/cli/chat/test_typed.py::test_signs",),
    ),
    Mutant(
        "half a change is shown before it is approved",
        "RUN-12",
        f"{_ROOM}/diffs.py",
        '        if not line.startswith("?"):',
        '        if line.startswith("+"):',
        (f"{DRAWING}::test_a_diff_holds_everything",),
    ),
    Mutant(
        "a message that begins with the letter of an answer is one",
        "RUN-12",
        f"{_ROOM}/asking.py",
        "    typed = text.strip().lower()",
        "    typed = text.strip().lower()[:1]",
        (f"{CHAT}::test_a_message_is_no_answer",),
    ),
    Mutant(
        "a key that nobody has read yet answers the next question",
        "RUN-12",
        f"{_ROOM}/screen.py",
        "        return not select.select([self.app.input.fileno()], [], [], 0)[0]",
        "        return True",
        ("tests/cli/chat/test_screen.py::test_whether_a_key_was_pressed_before_a_frame",),
    ),
    Mutant(
        "a low terminal shows nothing",
        "RUN-13",
        f"{_ROOM}/screen.py",
        "Dimension(min=1, preferred=self._count, max=self._count)",
        "Dimension.exact(self._count)",
        ("tests/cli/chat/test_looks.py::test_low",),
    ),
    Mutant(
        "a sub-agent is looked at for ever",
        "RUN-13",
        f"{_ROOM}/watching.py",
        "            self._children.pop(child, None)",
        "            pass",
        ("tests/cli/chat/test_watching.py::test_a_sub_agent_that_has_come_back_is_looked_at_no_more",),
    ),
    Mutant(
        "what was typed before a question answers it",
        "RUN-12",
        f"{_ROOM}/screen.py",
        "if self._ahead or self.input.text or self.app.key_processor.input_queue",
        "if self._ahead or self.app.key_processor.input_queue",
        (f"{CHAT}::test_what_was_typed_before_a_question_does_not_answer_it",),
    ),
    Mutant(
        "what was typed before a chat answers its question",
        "RUN-12",
        f"{_ROOM}/screen.py",
        "if self._ahead or self.input.text",
        "if self.input.text",
        ("tests/cli/chat/test_ahead.py::test_nobody_approves_what_they_have_not_seen",),
    ),
    Mutant(
        "the history keeps keys",
        "law 14",
        f"{_ROOM}/history.py",
        "redact(storable(string)).text",
        "storable(string)",
        ("tests/cli/chat/test_history.py::test_secrets_stay_out",),
    ),
    Mutant(
        "a steer waits like everything else",
        "RUN-7",
        f"{_ROOM}/room.py",
        'mode="steer" if steer else "followUp"',
        'mode="followUp"',
        (f"{CHAT}::test_queued_and_steered_while_busy",),
    ),
    Mutant(
        "a killed chat is shown and left",
        "law 5",
        f"{_ROOM}/room.py",
        "        self.view.open(session)\n        self.runner.want(session.name)",
        "        self.view.open(session)",
        (f"{GOING_ON}::test_a_killed_chat_goes_on",),
    ),
    Mutant(
        "all rows are fetched at once",
        "RUN-13",
        f"{_ROOM}/picking.py",
        "while not self._ended and len(self._fitting) < self.chosen + self.height:",
        "while not self._ended:",
        (f"{PICKING}::test_a_page_is_fetched_of_ten_thousand",),
    ),
)
