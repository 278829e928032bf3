"""An agent as it is configured: a model, instructions, tools, agreements. Only the next `context` entry knows it.

Rule 1 (law 2): what is in force stands in the log. An agent is written into a session when a run begins, if it
says anything new; from then on nobody looks at it, and a turn ends as it would have, whatever becomes of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from wakelog.live import live_world
from wakelog.log.codec import canonical
from wakelog.log.content import BlobRef, Prompt, Text
from wakelog.log.entry import ContextRecord, Entry, ModelChange
from wakelog.ports import Channel, Store, Tool
from wakelog.providers import split_model
from wakelog.session import Session
from wakelog.turn.policy import Policy, policy_written
from wakelog.views.state import branch_state
from wakelog.waking import Report, wake


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """What answers. `model` is `PROVIDER:NAME`."""

    model: str
    name: str = "agent"
    system: str = ""
    tools: tuple[Tool, ...] = ()
    params: Mapping[str, Any] = {}
    policy: Policy = Policy()

    def begin(self, store: Store, *, sender: str = "user", cwd: str = "", title: str | None = None) -> Session:
        """A new session of this agent."""
        provider, model = split_model(self.model)
        session = Session.create(
            store, agent=self.name, sender=sender, cwd=cwd, title=title, model=model, provider=provider
        )
        self.enter(session)
        return session

    def enter(self, session: Session) -> Entry | None:
        """Writes into a session what is new in this agent; gives the entry, if there was anything new."""
        state = branch_state(session.branch())
        provider, model = split_model(self.model)
        if (state.said_provider, state.said_model) != (provider, model):
            session.append(ModelChange(model=model, provider=provider))
        record = self._record(session)
        return session.append(record) if state.context is None or not _same(state.context, record) else None

    def _record(self, session: Session) -> ContextRecord:
        blobs = session.store.blobs
        return ContextRecord(
            environment={"approvalPolicy": self.policy.approval},
            system=blobs.put(self.system.encode(), "text/plain") if self.system else None,
            tools=tools_told(session.store, self.tools),
            params=dict(self.params),
            policy=policy_written(self.policy),
        )

    async def run(
        self,
        store: Store,
        prompt: str,
        *,
        session: Session | None = None,
        channels: Sequence[Channel] = (),
        cwd: str = "",
    ) -> Report:
        """Says something to this agent, in a new session or one it goes on with, and lets it answer."""
        opened = session or self.begin(store, cwd=cwd)
        if session is not None:
            self.enter(session)
        opened.say(Prompt(content=(Text(text=prompt),), channel=channels[0].name if channels else None))
        return await wake(live_world(store, tools=self.tools, channels=channels), opened.name)


def tools_told(store: Store, tools: Sequence[Tool]) -> BlobRef | None:
    """The tools as the model is told of them, in the order given."""
    if not tools:
        return None
    told = [
        {"name": tool.name, "description": tool.description, "schema": tool.schema, "replay": tool.replay}
        for tool in tools
    ]
    return store.blobs.put(canonical(told), "application/json")


def _same(one: ContextRecord, other: ContextRecord) -> bool:
    return canonical(one.bare) == canonical(other.bare)
