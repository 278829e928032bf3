"""Replay: run the same steps again in a runtime that answers from the log (law 11: same log, same bytes; RUN-14).

    recording.py   the recorded log as a script: which entries are inputs, which the runtime wrote
    rerunning.py   a store to which the entries are written again, and which compares them
    answers.py     clock, provider, tools, channels and people, answered from the recording
    verifying.py   drives `wake` over the script and reports where the two logs differ

No model is called, no tool is run, no configuration is read and no network is used: this package imports no provider,
and of the tools only the description of the subagent tool.
"""
