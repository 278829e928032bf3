"""The same work on other libraries that store conversations or events: `make bench-peers`.

Rule 1: a peer is used through its public calls, with its own defaults, and exactly one file here imports it. A process
that measures one peer loads no other.
Rule 2: what a peer gives is measured: its syncs are counted in a trace of its system calls, its writer is killed, its
server is stopped. Nothing about durability is quoted.
Rule 3: each peer alternates with the floor of its kind. wakelog is one of the rows and is measured like all others.
"""
