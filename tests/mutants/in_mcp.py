"""Mutants in `tools/mcp/`: whose hints count, what a server sees, and what becomes of it."""

from tests.mutants.mutant import Mutant

DECLARING = "tests/tools/mcp/test_declaring.py"
GUARD = "tests/tools/mcp/test_guard.py"
HTTP = "tests/tools/mcp/test_http.py"
SERVER = "tests/tools/mcp/test_server.py"
SERVERS = "tests/tools/mcp/test_servers.py"
TELLING = "tests/tools/mcp/test_telling.py"
WAKING = "tests/tools/mcp/test_waking.py"

IN_MCP = (
    Mutant(
        "a stranger's hints are believed",
        "law 6",
        "tools/mcp/declaring.py",
        'return "safe" if server.trusted and says_so else "never"',
        'return "safe" if says_so else "never"',
        (f"{DECLARING}::test_hints_count_from_those_who_are_trusted",),
    ),
    Mutant(
        "a stranger's tool is safe if the log says so",
        "law 6",
        "tools/mcp/tool.py",
        '"safe" if source.server.trusted and declared.get("replay") == "safe" else "never"',
        'declared.get("replay", "never")',
        (f"{SERVERS}::test_a_log_cannot_make_an_untrusted_tool_safe",),
    ),
    Mutant(
        "a tool that only reads is not run again",
        "RUN-6",
        "tools/mcp/declaring.py",
        'hints.get("readOnlyHint") is True or',
        'hints.get("readOnlyHint") is True and',
        (f"{WAKING}::test_a_kill_while_a_tool_runs",),
    ),
    Mutant(
        "a declared tool does not say where it is from",
        "law 2, RUN-19",
        "tools/mcp/declaring.py",
        '        "from": {"mcp": {**server.value, "tool": tool.name}},\n',
        "",
        (f"{SERVERS}::test_tools_run_from_what_was_declared_alone",),
    ),
    Mutant(
        "a listing is told in the order of the server",
        "law 8",
        "tools/mcp/declaring.py",
        "for tool in sorted(listed, key=lambda one: one.name):",
        "for tool in listed:",
        (f"{DECLARING}::test_the_order_of_a_listing_means_nothing",),
    ),
    Mutant(
        "two readings of one name",
        "law 13",
        "tools/mcp/declaring.py",
        'is_clear = f"{server}__".find("__") == len(server)',
        "is_clear = True",
        (f"{DECLARING}::test_servers_whose_names_run_into_those_of_tools",),
    ),
    Mutant(
        "a url may hold a secret",
        "LOG-13",
        "tools/mcp/server.py",
        "if parts.username is not None or parts.password is not None:",
        "if False:",
        (f"{SERVER}::test_a_mistake_is_told_in_one_line",),
    ),
    Mutant(
        "a server sees the whole environment",
        "LOG-13",
        "tools/mcp/transport.py",
        "env={name: _variable(name) for name in server.env},",
        "env=dict(os.environ),",
        (f"{SERVERS}::test_the_environment_of_a_server",),
    ),
    Mutant(
        "the errors of a server go to the terminal",
        "law 13",
        "tools/mcp/transport.py",
        "stdio_client(_process(server), pen)",
        "stdio_client(_process(server))",
        (f"{SERVERS}::test_its_errors_stay_off_the_terminal",),
    ),
    Mutant(
        "the sdk complains on the terminal",
        "law 13",
        "tools/mcp/connection.py",
        'logging.getLogger("mcp").addHandler(logging.NullHandler())\n',
        "",
        (f"{SERVERS}::test_its_errors_stay_off_the_terminal",),
    ),
    Mutant(
        "only the first page is listed",
        "RUN-7",
        "tools/mcp/connection.py",
        "        if not cursor:\n            return found\n",
        "        return found\n",
        (f"{SERVERS}::test_every_page_is_listed",),
    ),
    Mutant(
        "a dead server stays dead",
        "RUN-7",
        "tools/mcp/servers.py",
        "if found is None or found.is_over:",
        "if found is None:",
        (f"{SERVERS}::test_a_death_is_an_error_and_the_next_call_starts_it_anew",),
    ),
    Mutant(
        "an end is not heard",
        "RUN-7",
        "tools/mcp/transport.py",
        "            self._over()\n            raise\n",
        "            raise\n",
        (f"{SERVERS}::test_a_death_is_an_error_and_the_next_call_starts_it_anew",),
    ),
    Mutant(
        "the newest greeting is the only one",
        "RUN-7",
        "tools/mcp/connection.py",
        'fault = await self._attempt("legacy")',
        "pass",
        (f"{SERVERS}::test_a_server_of_the_old_school",),
    ),
    Mutant(
        "a server that forgot us is not asked again",
        "RUN-7",
        "tools/mcp/connection.py",
        "            await self.close()\n            return Stale()\n",
        "            await self.close()\n",
        (f"{HTTP}::test_a_server_that_was_restarted_between_two_calls",),
    ),
    Mutant(
        "an answer has no bound",
        "RUN-7",
        "tools/mcp/transport.py",
        "            response.stream = _Bounded(response)\n",
        "            pass\n",
        (f"{HTTP}::test_secrets_come_from_variables", f"{HTTP}::test_an_answer_that_is_none"),
    ),
    Mutant(
        "a line has no bound",
        "RUN-7",
        "tools/mcp/guard.py",
        "if line > LINE_BYTES:",
        "if line > 20 * LINE_BYTES:",
        (f"{GUARD}::test_a_line_without_end",),
    ),
    Mutant(
        "a server outlives its harness",
        "RUN-7",
        "tools/mcp/guard.py",
        "select.select([output, wakes, parents_end], [], [])",
        "select.select([output, wakes], [], [])",
        (f"{GUARD}::test_the_parent_is_killed",),
    ),
    Mutant(
        "a server outlives its wake",
        "RUN-7",
        "tools/mcp/servers.py",
        "        await asyncio.gather(*(connection.close() for connection in self._begun))\n",
        "",
        (f"{SERVERS}::test_servers_end_with_their_context",),
    ),
    Mutant(
        "a picture is lost in silence",
        "RUN-7",
        "tools/mcp/telling.py",
        """return f"[{kind}: {part.get('mimeType')}, {_size(part.get('data'))}, not shown]\"""",
        'return ""',
        (f"{TELLING}::test_what_is_no_text_is_named",),
    ),
)
