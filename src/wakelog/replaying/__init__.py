"""Replay: the same steps again, in a world that answers from the log (law 11, RUN-14).

    recording.py   the recorded log as a script: which entries were given, which the runtime wrote
    rerunning.py   a store that lets each entry be written once more, and compares
    answers.py     clock, provider, tools, channels and people, answered from the recording
    verifying.py   drives `wake` over all of it, and says where the two logs part

No model is called, no tool is run, no configuration is read and no network is touched: nothing in this room
imports a provider, and of the tools only the description of the sub-agent's.
"""
