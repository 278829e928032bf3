"""How much a model is handed, in tokens: the messages, and what stands beside them. Pure.

What stands beside them is known by its size alone, so nothing is read for this. What is injected is found when a run
begins; until then what the last call was handed is the best guess.
"""

from wakelog.log.entry import Call
from wakelog.log.tree import Branch
from wakelog.projections.context import Context


def beside(built: Context, branch: Branch) -> dict[str, int]:
    """The estimated size of what goes along with the messages, by what it is; what is not there is left out."""
    calls = (annotation.value for annotation in reversed(branch.annotations) if isinstance(annotation.value, Call))
    call = next((call for call in calls if call.purpose == "reply"), None)
    sizes = {
        "instructions": built.system.bytes if built.system is not None else 0,
        "tools": built.tools.bytes if built.tools is not None else 0,
        "injected at the last call": sum(blob.bytes for blob in call.injected) if call is not None else 0,
    }
    return {what: -(-size // 4) for what, size in sizes.items() if size}
