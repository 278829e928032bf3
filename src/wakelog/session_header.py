"""The header of a new session: checked, redacted, and without the number that the store gives it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from wakelog.arguments import checked_text
from wakelog.decide.policy import RedactMode
from wakelog.log.entry import FORMAT_VERSION, Origin, SessionHeader
from wakelog.log.ids import checked_id
from wakelog.log.timestamps import iso_timestamp
from wakelog.redaction.entries import redact_entry, redact_identity
from wakelog.redaction.known_values import NO_KNOWN_VALUES, KnownValues
from wakelog.version import APP


def new_header(
    *,
    id: str,  # noqa: A002 - the name of the field
    now_ms: int,
    agent: str,
    sender: str,
    cwd: str = "",
    title: str | None = None,
    model: str | None = None,
    provider: str | None = None,
    settings: Mapping[str, Any] | None = None,
    parent: Origin | None = None,
    redact: RedactMode = "assignments",
    known: KnownValues = NO_KNOWN_VALUES,
) -> SessionHeader:
    """Return the header of a new session, checked and redacted. The store adds its number."""
    for what, text in (("the agent", agent), ("the sender", sender), ("the folder", cwd)):
        checked_text(what, text)
    for what, given_text in (("the title", title), ("the model", model), ("the provider", provider)):
        checked_text(what, given_text or "")
    given = SessionHeader(
        id=checked_id(id),
        timestamp=iso_timestamp(now_ms),
        version=FORMAT_VERSION,
        cwd=cwd,
        agent=agent,
        sender=sender,
        app=APP,
        title=title,
        provider=provider,
        model=model,
        settings=dict(settings or {}),
        parent=parent,
    )
    # The pair (agent, sender) identifies the session: redaction must not make two identities equal, and every process
    # must find it, whatever values it knows.
    names = {"agent": redact_identity(agent, redact), "sender": redact_identity(sender, redact)}
    return msgspec.structs.replace(redact_entry(given, redact, known), **names)
