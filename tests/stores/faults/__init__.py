"""What must hold of every store that outlives a process, when processes, servers and disks fail.

The same tests run on files, SQLite and PostgreSQL: a store is a URL here, and nothing else is known of it except
where a fault has to be injected. `children.py` is what the processes run, `logs.py` makes logs and judges them.
"""
