"""The same work on other libraries that keep conversations or events: `make bench-peers`.

Rule 1: a peer is driven through its public calls, with its own defaults, and one file here knows it.
Nobody else imports it, and a process that measures one peer loads no other.
Rule 2: what a peer gives is measured: its syncs are counted in a trace of its system calls, its writer is killed, its
server is stopped. Nothing about durability is quoted.
Rule 3: each peer takes turns with the floor of its kind. wakelog is one of the rows and gets no other treatment.
"""
