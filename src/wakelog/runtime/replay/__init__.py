"""Replay: run the same steps again in a runtime that answers from the log (law 11: same log, same bytes; RUN-14).

    recording.py          the recorded log as a script, and the store that writes and compares it
    recorded_runtime.py   clock, provider, tools, channels and people, answered from the recording
    verification.py       drives `wake` over the script and reports where the two logs differ

No model is called, no tool is run, no configuration is read and no network is used: this package imports no provider,
and of the tools only the description of the subagent tool.
"""
