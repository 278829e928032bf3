"""A model for tests without a script for each session: replies by prompt, position by the replies since then.

`Play` is a function of the request alone: it finds the newest prompt it knows and counts the replies behind it.
So it says the same after a crash, in another process, on a fork and in a sub-agent's session.
"""

from wakelog.providers.scripted import ScriptedProvider


class Play:
    """A provider that answers each known prompt with its own replies, and every compaction with one summary."""

    name = "scripted"

    def __init__(self, replies, *, summary="They talked.", can_resume=False):
        self.can_resume = can_resume
        self._replies = replies
        self._summary = summary

    def __call__(self, provider, model):
        """Return the provider, whatever name `LiveRuntime` asks for."""
        return self

    def stream(self, request):
        place, lines = self._place(request)
        script = ScriptedProvider([*({} for _ in range(request.answers)), lines[place]], can_resume=self.can_resume)
        return script.stream(request)

    def _place(self, request):
        if request.purpose == "compaction":
            return 0, [{"text": self._summary}]
        said = 0
        for message in reversed(request.messages):
            said += message.role == "assistant"
            text = "".join(getattr(part, "text", "") for part in message.content)
            if message.role == "user" and text in self._replies:
                return said, self._replies[text]
        raise AssertionError("no message of the request is a prompt of this play")
