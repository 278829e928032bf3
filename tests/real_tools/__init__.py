"""Tests with the real agents: pinned packages, run against the scripted model of `tests/loopback`, without network.

`make test-tools` runs them (`TOOLS="pi gemini"` for some tools only); `make test` leaves them out, because the tools
are hundreds of megabytes. `pinned.py` has the tools and how each is set up and started, `installing.py` puts them below
`.tools/` of the checkout, `running.py` runs them, each with a home folder and an environment of its own.

A test names its tool in the mark `real_tools`, and gets it, not started, from the fixture `tool`:

    pytestmark = pytest.mark.real_tools("pi")

    def test_it_answers(tool, server):
        server.play([Say("Hello")])
        assert "Hello" in tool.run("Hi").stdout
"""
