"""Mutants in `providers/`: a model's place, its beginning, and what it does on its own."""

from tests.mutants.mutant import Mutant

SCRIPTED = "tests/providers/test_scripted.py"
DEMO = "tests/providers/test_demo.py"
PHRASES = "tests/providers/test_demo_phrases.py"

IN_PROVIDERS = (
    Mutant(
        "the script counts for itself",
        "law 2",
        "providers/scripted.py::ScriptedProvider.stream",
        "return play(_prepared_reply(self._replies[request.answers], request), ...)",
        (
            'self._place = getattr(self, "_place", -1) + 1\n'
            "return play(_prepared_reply(self._replies[self._place % len(self._replies)], request), ...)"
        ),
        (f"{SCRIPTED}::test_the_place_comes_from_the_request",),
    ),
    Mutant(
        "a script that is over begins again",
        "RUN-12",
        "providers/scripted.py::ScriptedProvider.stream",
        "request.answers >= len(self._replies)",
        "not self._replies",
        (f"{SCRIPTED}::test_past_the_end",),
    ),
    Mutant(
        "a reply is glued to a strange beginning",
        "RUN-8",
        "providers/playback.py::play",
        "can_resume and reply.text.startswith(request.prefill)",
        "can_resume",
        (f"{SCRIPTED}::test_resume_of_something_else_is_a_fault",),
    ),
    Mutant(
        "a model that cannot resume resumes",
        "RUN-8",
        "providers/playback.py::play",
        "can_resume and reply.text.startswith(request.prefill)",
        "reply.text.startswith(request.prefill)",
        (f"{SCRIPTED}::test_a_model_that_cannot_resume_does_not",),
    ),
    Mutant(
        "a resumed reply says all of it again",
        "RUN-8",
        "providers/playback.py::play",
        "reply.text[len(request.prefill) :]",
        "reply.text",
        (f"{SCRIPTED}::test_resume_gives_the_rest", f"{DEMO}::test_every_cut_can_be_resumed"),
    ),
    Mutant(
        "a failure swallows what came before it",
        "RUN-12",
        "providers/playback.py::play",
        "_deltas(reply)",
        "() if reply.fault else _deltas(reply)",
        (f"{SCRIPTED}::test_a_fault_comes_behind_the_text",),
    ),
    Mutant(
        "the demo goes on after a failure",
        "law 6",
        "providers/demo.py::_build_reply",
        "len(done) >= len(steps) or any(step.failed for step in done)",
        "len(done) >= len(steps)",
        (f"{DEMO}::test_it_stops_where_something_fails",),
    ),
    Mutant(
        "half of a request is run",
        "law 6",
        "providers/demo.py::parse_prompt",
        "steps and all(steps)",
        "any(steps)",
        (f"{PHRASES}::test_whole_or_not_at_all",),
    ),
    Mutant(
        "quoted words are cut",
        "law 6",
        "providers/demo.py::_split_unquoted",
        "_mask_quoted(text)",
        "text",
        (f"{PHRASES}::test_one_step",),
    ),
)
