"""Texts that the runtime writes into entries, for the model and for people.

They are stored when an entry is appended and never added on reading, so changing one here changes no log and no
digest.
"""

SKIPPED_CANCELLED = "Not run: the turn was cancelled before this tool was begun."
SKIPPED_FOREIGN = "Not run: this call was not made by this session."
SKIPPED_OVERTAKEN = "Not run: a new message came before this tool was begun."
INTERRUPTED = "Interrupted: this tool was begun and did not finish. It may have had part or all of its effect."
UNKNOWN = (
    "Outcome unknown: the process stopped after this tool was begun and before its result was kept. "
    "It may or may not have run; it was not run again. Check before repeating it."
)
UNKNOWN_RECORDED = (
    "Outcome unknown: the log has no result of this tool call and does not show whether it ran. "
    "It was not run here. Check before repeating it."
)
TOO_OFTEN = "Given up: this tool was begun {attempts} times and never finished."
DENIED = "Denied: this tool may not be run here."
DENIED_BY_PERSON = "Denied: a person decided that this tool may not be run."
RAN = "A person has checked: this tool ran. What it put out is not known."
DID_NOT_RUN = "A person has checked: this tool did not run, and it was not run again."
REDACTED = (
    "Not run: the call held a secret, which is not written down; what stands in its place would do something else. "
    "Let the tool take it from the environment or from a file."
)
NO_SUCH_TOOL = "There is no tool {name!r}."
SHOWN = "\n\nIt had put out:\n{shown}"
PARTS_LEFT_OUT = "[… reasoning and tool calls of this interrupted reply left out: they do not fit into one entry …]"
NO_DEEPER = "Not run: sub-agents may not go any deeper."
NO_PROMPT = "Not run: a sub-agent needs a prompt."
NO_SUCH_AGENT = "Not run: there is no agent {name!r} to send; there are {names}."
NO_OTHERS = "Not run: there is no other agent to send; leave `agent` out."
CHILD_FAILED = "The sub-agent failed: {message}"
CHILD_SILENT = "The sub-agent finished without a word."
HOOK_FAILED = "[the hook {name} failed: {why}]"
DAMAGE_HOLES = (
    "Part of this session's log can no longer be read (places: {places}). What it held is missing from this "
    "conversation: messages, replies of yours, or tool results."
)
DAMAGE_TOOLS = "These tools were called by a reply of yours that is lost:"
DAMAGE_NO_TRACE = "A reply that is lost may have called tools; the rest of the log does not name any."
DAMAGE_SENT = "Replies of yours that are lost had been delivered: {count}."
DAMAGE_RAN = "A person has checked: what the lost reply called did run. What it put out is not known."
DAMAGE_DID_NOT_RUN = "A person has checked: what the lost reply called did not run, and it was not run again."
DAMAGE_SAID = "A person has checked, and says:\n{said}"
DAMAGE_CHECK = "Check before repeating anything that must not happen twice."
HOOK_REDACTED = "its options held a secret, which is not written down; let it take the secret from the environment"
STEPS = "the turn took {steps} replies without coming to an end"
FAULTS = "{faults} calls in a row came to nothing"
LAST_FAULT = "; the last: {why}"

SUMMARY_FRAMES = ("Summary of the conversation so far, which it stands for:\n\n",)
"""Prefixes of a summary. New summaries get the last one; the others are kept so that old logs can be replayed."""

SUMMARISE = (
    "Summarise the conversation so far, so that the work can go on from your summary alone. Keep the aim, what was "
    "decided and why, what was done, names of files, commands and figures as they are, and what is still open. "
    "Write plain text, without a greeting."
)


def framed(summary: str) -> str:
    """Return a summary with its prefix, as the user message it becomes."""
    return SUMMARY_FRAMES[-1] + summary.strip()


def unframed(summary: str) -> str:
    """Return a summary without its prefix."""
    for frame in SUMMARY_FRAMES:
        if summary.startswith(frame):
            return summary.removeprefix(frame)
    return summary
