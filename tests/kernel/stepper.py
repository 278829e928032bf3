"""A program that forks a worker for each line on its standard input; the worker takes one step and ends.

    python -m tests.kernel.stepper FOLDER HOLDER

The program itself never opens the session; it only forks, warm. What a step leaves behind is in the log or
nowhere. It answers each line with how the step ended.
"""

import asyncio
import json
import os
import sys

import msgspec

from tests.kernel.killing import in_child
from tests.kernel.long_session import PLAY, SESSION, _Interrupter
from tests.kernel.outside import Outside
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.stores.jsonl import JsonlStore
from wakelog.tools.subagent import SubagentTool


def runtime_of(folder, holder):
    """The runtime of a worker."""
    store, outside = JsonlStore(os.path.join(folder, "store")), Outside(os.path.join(folder, "outside"))
    tools = (*outside.tools(_Interrupter(store)), SubagentTool())
    provider = outside.fragile(PLAY, "Try.")
    return LiveRuntime(store, tools=tools, channels=[outside.channel()], provider=provider, holder=holder)


def step(folder, holder):
    """Take one step and print its result."""
    report = asyncio.run(wake(runtime_of(folder, holder), SESSION, steps=1))
    idle = type(report.decision).__name__ in ("Idle", "Await") and getattr(report.decision, "until_ms", None) is None
    print(
        json.dumps({"idle": idle, "rows": report.rules, "decision": msgspec.to_builtins(report.decision)}), flush=True
    )


def main(folder, holder):
    """Take a step for each line."""
    for _ in sys.stdin:
        if in_child(lambda: step(folder, holder)):
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
