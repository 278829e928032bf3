"""Planted bugs in the offline providers: the position in a script, resuming, and the demo model."""

from tests.mutants.mutant import Mutant

SCRIPTED = "tests/providers/test_scripted.py"
DEMO = "tests/providers/test_demo.py"
PHRASES = "tests/providers/test_demo_phrases.py"

IN_PROVIDERS = (
    Mutant(
        "the scripted provider counts replies by itself",
        "law 2",
        "providers/scripted.py::ScriptedProvider.stream",
        "return play(_prepared_reply(self._replies[request.answers], request), ...)",
        (
            'self._place = getattr(self, "_place", -1) + 1\n'
            "return play(_prepared_reply(self._replies[self._place % len(self._replies)], request), ...)"
        ),
        (f"{SCRIPTED}::test_the_position_comes_from_the_request",),
    ),
    Mutant(
        "a finished script starts again",
        "RUN-12",
        "providers/scripted.py::ScriptedProvider.stream",
        "request.answers >= len(self._replies)",
        "not self._replies",
        (f"{SCRIPTED}::test_a_request_after_the_end_of_the_script_is_a_fault",),
    ),
    Mutant(
        "a scripted reply continues text that it does not begin with",
        "RUN-8",
        "providers/playback.py::play",
        "can_resume and reply.text.startswith(request.prefill)",
        "can_resume",
        (f"{SCRIPTED}::test_resuming_another_text_is_a_fault",),
    ),
    Mutant(
        "a model without resume support resumes",
        "RUN-8",
        "providers/playback.py::play",
        "can_resume and reply.text.startswith(request.prefill)",
        "reply.text.startswith(request.prefill)",
        (f"{SCRIPTED}::test_a_model_that_cannot_resume_does_not",),
    ),
    Mutant(
        "a resumed reply repeats its beginning",
        "RUN-8",
        "providers/playback.py::play",
        "reply.text[len(request.prefill) :]",
        "reply.text",
        (f"{SCRIPTED}::test_resume_gives_the_rest", f"{DEMO}::test_a_reply_can_be_resumed_at_every_position"),
    ),
    Mutant(
        "a failure drops the text before it",
        "RUN-12",
        "providers/playback.py::play",
        "_deltas(reply)",
        "() if reply.fault else _deltas(reply)",
        (f"{SCRIPTED}::test_a_fault_comes_after_the_text",),
    ),
    Mutant(
        "the demo model continues after a failed tool",
        "law 6",
        "providers/demo.py::_build_reply",
        "len(done) >= len(steps) or any(step.failed for step in done)",
        "len(done) >= len(steps)",
        (f"{DEMO}::test_it_stops_at_a_failed_step",),
    ),
    Mutant(
        "the demo model runs a part of a request",
        "law 6",
        "providers/demo.py::parse_prompt",
        "steps and all(steps)",
        "any(steps)",
        (f"{PHRASES}::test_a_partly_understood_prompt_makes_no_call",),
    ),
    Mutant(
        "quoted words are split",
        "law 6",
        "providers/demo.py::_split_unquoted",
        "_mask_quoted(text)",
        "text",
        (f"{PHRASES}::test_one_step",),
    ),
)
