"""Tests of all persistent stores with failing processes, servers and disks.

The same tests run on files, SQLite and PostgreSQL: a store is a URL here, and nothing else is known of it except
where a fault has to be injected. `children.py` is what the processes run, `logs.py` makes logs and judges them.
"""
