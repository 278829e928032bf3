"""Real servers for the tests: PostgreSQL, and pgbouncer in front of it.

`fixtures.py` is what tests ask for; `postgres.py` and `pgbouncer.py` are the servers, `binaries.py` says where
PostgreSQL comes from, `place.py` where servers live and as whom, `keeper.py` ends them with the run. What is
missing fails the test with one line that says what to do; nothing here is a stand-in, and nothing skips.
"""
