"""Estimated tokens of what a request contains besides the messages. Pure.

The estimate uses blob sizes only, so nothing is read. Injected text is determined when a run begins; until then that of
the last model call is the estimate.
"""

from wakelog.log.entry import Call
from wakelog.log.tree import Branch
from wakelog.projections.context import Context


def beside(built: Context, branch: Branch) -> dict[str, int]:
    """Return the estimated tokens of instructions, tools and injected text (bytes / 4); absent ones are left out."""
    calls = (annotation.value for annotation in reversed(branch.annotations) if isinstance(annotation.value, Call))
    call = next((call for call in calls if call.purpose == "reply"), None)
    sizes = {
        "instructions": built.system.bytes if built.system is not None else 0,
        "tools": built.tools.bytes if built.tools is not None else 0,
        "injected at the last call": sum(blob.bytes for blob in call.injected) if call is not None else 0,
    }
    return {what: -(-size // 4) for what, size in sizes.items() if size}
