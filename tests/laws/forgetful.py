"""A model that repeats every action that its context does not show: it makes silent repetition of a turn visible."""

from wakelog.providers.scripted import ScriptedProvider

WARNING = "can no longer be read"


class Forgetful:
    """A model that calls `publish` for the newest prompt unless the messages after it show that it did."""

    name = "scripted"
    can_resume = False

    def __init__(self):
        self.requests = []

    def stream(self, request):
        self.requests.append(request)
        script = ScriptedProvider([*({} for _ in range(request.answers)), self._reply(request)])
        return script.stream(request)

    def _reply(self, request):
        version = 0
        known = False
        for message in request.messages:
            text = "".join(getattr(part, "text", "") for part in message.content)
            if message.role == "user" and text.startswith("publish "):
                version, known = int(text.removeprefix("publish ")), False
            known = known or message.role == "toolResult" or WARNING in text
        if known or not version:
            return {"text": f"Version {version} is dealt with."}
        calls = [
            {"name": "publish", "input": {"version": version}, "id": "p"},
            {"name": "look", "input": {}, "id": "l"},
        ]
        return {"text": "On it.", "toolCalls": calls[:: 1 if version % 2 else -1]}
