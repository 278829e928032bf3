"""One step: what was decided, on which log, and how its entries get into that log.

Rule 1: the first entry of a step stands right behind the entries it was decided on, or not at all; then the
session decides again. So a decision is a function of the log before it, for everybody, for ever.
Rule 2: what a step has begun, it writes down: later entries of the same step go in whatever was said in
between, and a node that has lost its place becomes a fork rather than being lost.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from wakelog.decide.clip import clip, storable
from wakelog.decide.policy import Policy, Reasoning
from wakelog.decide.table import Verdict, decide
from wakelog.log.content import Said, Usage
from wakelog.log.entry import AnyAnnotation, AnyNode, Compaction, Entry, Node, Partial
from wakelog.log.entry import Session as SessionEntry
from wakelog.log.times import iso, parse_ms
from wakelog.log.tree import Branch, Tree
from wakelog.ports import Lease, Tool
from wakelog.projections.state import BranchState
from wakelog.redaction.redactor import redact
from wakelog.redaction.shapes import Redact
from wakelog.runtime.model_request import declared_tools
from wakelog.runtime.world import World
from wakelog.session import Session


class Step:
    """One decide and one act, on a session that this worker holds."""

    def __init__(self, world: World, session: Session, lease: Lease, verdict: Verdict) -> None:
        self.world = world
        self.session = session
        self.lease = lease
        self.verdict = verdict
        self.tree: Tree = verdict.snapshot.tree
        self.branch: Branch = verdict.snapshot.branch
        self.state: BranchState = verdict.snapshot.state
        self.decided_on = session.last_seq
        assert self.branch.tip is not None
        self.tip = self.branch.tip.id
        self.begun = False

    @property
    def policy(self) -> Policy:
        """What was agreed."""
        return self.verdict.snapshot.policy

    @property
    def rules(self) -> int:
        """The rules this worker decides and writes by."""
        return self.verdict.snapshot.rules

    @property
    def card(self) -> SessionEntry:
        """What the session's first line says of it."""
        return self.tree.card

    @property
    def cwd(self) -> str:
        """Where the agent works."""
        return self.card.cwd

    def declared(self) -> Sequence[Mapping[str, Any]]:
        """The tools that the model was told of."""
        record = self.state.context
        return declared_tools(self.world.store.blobs, record.tools if record is not None else None)

    def tools(self) -> Mapping[str, Tool]:
        """The tools at hand."""
        return self.world.tools(self.cwd, self.declared())

    @property
    def redact(self) -> Redact:
        """Which secrets are taken out of what comes from outside."""
        return self.policy.redact if self.world.redacts else "off"

    @property
    def redacts(self) -> bool:
        """Whether any are."""
        return self.redact != "off"

    @property
    def reasoning(self) -> Reasoning:
        """How much of what a model thinks is kept; of what comes from a log, all."""
        return "keep" if self.is_recorded else self.policy.reasoning

    @property
    def is_recorded(self) -> bool:
        """Whether replies and results come from a log, where everything about them was decided already."""
        return not self.world.redacts

    def without_secrets(self, text: str) -> str:
        """A text from outside, as it may be written and shown."""
        return redact(text, self.redact).text

    def fault_message(self, message: str) -> str:
        """The message of a fault as an entry holds it: a provider may answer with a page of any length."""
        return clip(storable(message))[0] if self.rules >= 2 else message

    def priced(self, usage: Usage | None) -> Usage | None:
        """What a call used, with its cost, if a price was agreed on."""
        price = self.policy.price
        return price.of(usage) if usage is not None and price is not None else usage

    def said_of(self, reply_id: str) -> str:
        """The words there are of a reply that was cut off."""
        sealed = [annotation.value for annotation in self.branch.annotations if isinstance(annotation.value, Partial)]
        content = next((partial.content for partial in reversed(sealed) if partial.reply_id == reply_id), ())
        return Said(content=content).text

    def now_ms(self) -> int:
        """The time."""
        return self.world.clock.now_ms()

    def write(self, body: AnyNode | AnyAnnotation, *, about: str | None = None, now_ms: int | None = None) -> Entry:
        """Appends an entry of this step: a node at the step's place on its branch, an annotation `about` a node."""
        stamp = iso(self.now_ms() if now_ms is None else now_ms)
        entry = self.session.append(
            msgspec.structs.replace(body, timestamp=stamp),
            at=about or self.tip,
            # The place was read from the very log this goes behind: if it has a child, a person moved the head there.
            fork=True,
            lease=self.lease,
            behind=None if self.begun else self.decided_on,
        )
        self._wrote(entry)
        return entry

    def fold(self, body: Compaction) -> Entry:
        """Appends a compaction, which carries the state of this very moment."""
        entry = self.session.fold(body, at=self.tip, lease=self.lease)
        self._wrote(entry)
        return entry

    def _wrote(self, entry: Entry) -> None:
        self.begun = True
        if isinstance(entry.value, Node):
            self.tip = entry.id


def decided(world: World, session: Session, *, new_worker: bool = False) -> Verdict:
    """What is to be done in a session now: by the worker that has it, or by one that would take it."""
    return decide(session.tree, world.clock.now_ms(), world.attached, world.rules, new_worker=new_worker)


def elapsed_since(entry: Entry, now_ms: int) -> int:
    """How long ago an entry was written, by its own time."""
    return max(0, now_ms - (parse_ms(entry.value.timestamp) or now_ms))
