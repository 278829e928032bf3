"""Mutants in `cli/`: what a terminal gets to see of stored text, what a run goes by, many sessions at once."""

from tests.mutants.mutant import Mutant

SAFE = "tests/cli/test_safe.py"
KEYS = "tests/cli/test_kept_keys.py"
WAKE = "tests/cli/test_wake.py"
TERMS = "tests/cli/test_terms.py"
NAMES = "tests/cli/test_names.py"
LISTING = "tests/cli/test_listing.py"

JOURNALS = "tests/cli/test_journals.py"

IN_CLI = (
    Mutant(
        "a document counts the messages of every branch",
        "VIEW-8",
        "exchange/markdown.py",
        "str(count_messages(branch))",
        "str(card.messages)",
        ("tests/cli/test_read.py::test_show_counts_what_it_shows",),
    ),
    Mutant(
        "a journal is shown though its reply is in the log",
        "VIEW-10",
        "turn/unsealed.py",
        "    if journal in tree.links or (subject",
        "    if (subject",
        (f"{JOURNALS}::test_a_journal_whose_reply_is_in_the_log_is_not_shown[files]",),
    ),
    Mutant(
        "a reply that is being written counts as interrupted",
        "VIEW-10",
        "journals.py",
        "JournalTexts(partials, store.held(name) is not None)",
        "JournalTexts(partials, running=False)",
        (f"{JOURNALS}::test_a_reply_that_is_being_written_is_not_interrupted[files]",),
    ),
    Mutant(
        "a search sees only the index",
        "VIEW-10",
        "cli/listing.py",
        "_in_journals(place, wanted, limit) if after is None else []",
        "[]",
        (f"{JOURNALS}::test_an_interrupted_reply_is_found[files]",),
    ),
    Mutant(
        "text that streams is printed as it is",
        "law 13, VIEW-10",
        "cli/following.py",
        "join(visible_lines(text))",
        'join(text.split("\\n"))',
        (f"{JOURNALS}::test_following_an_interrupted_reply_says_how_to_continue[files]",),
    ),
    Mutant(
        "a reply is printed again when it is complete",
        "VIEW-10",
        "cli/following.py",
        "return bool(said) and said == reply.text",
        "return False",
        (f"{JOURNALS}::test_text_is_followed_as_it_streams[files-words0]",),
    ),
    Mutant(
        "escape sequences reach the terminal",
        "law 13",
        "cli/safe.py",
        "    (0x00, 0x1F),  # C0",
        "    (0x00, 0x1A),  # C0",
        (f"{SAFE}::test_hostile_text_becomes_visible", f"{SAFE}::test_signs"),
    ),
    Mutant(
        "text turns round",
        "law 13",
        "cli/safe.py",
        "    (0x2028, 0x202E),",
        "    (0x2028, 0x2029),",
        (f"{SAFE}::test_hostile_text_becomes_visible",),
    ),
    Mutant(
        "JSON carries raw controls",
        "law 13",
        "cli/safe.py",
        "    units = found[0].encode(",
        "    return found[0]\n    units = found[0].encode(",
        (f"{SAFE}::test_json_keeps_the_value_and_tames_the_bytes",),
    ),
    Mutant(
        "a program prints a key for every call",
        "LOG-13",
        "cli/kept_keys.py",
        "            if not self.has(words):\n",
        "            if True:\n",
        (f"{KEYS}::test_a_program_is_run_once",),
    ),
    Mutant(
        "a key that was refused is used again",
        "LOG-13",
        "cli/kept_keys.py",
        "                    KEPT.forget(self._words)\n",
        "",
        (f"{KEYS}::test_one_that_was_kept_and_is_refused_is_asked_for_anew",),
    ),
    Mutant(
        "all are woken, however many there are",
        "RUN-16",
        "cli/together.py",
        "asyncio.Semaphore(jobs)",
        "asyncio.Semaphore(99)",
        (f"{WAKE}::test_all_but_no_more_than_so_many",),
    ),
    Mutant(
        "a sub-agent is woken beside its sender",
        "TREE-6",
        "cli/together.py",
        "        if sender is not None:\n",
        "        if False:\n",
        (f"{WAKE}::test_all_wakes_parents_before_their_sub_agents",),
    ),
    Mutant(
        "Ctrl-C makes room for the next ones",
        "RUN-12",
        "cli/together.py",
        "        self._over = True\n",
        "",
        (f"{WAKE}::test_all_interrupted",),
    ),
    Mutant(
        "what was found says whether instructions are read",
        "LOG-14",
        "cli/terms.py",
        "    if terms.system is not None or policy.instructions:\n",
        "    if terms.system is not None or record.sources:\n",
        (f"{TERMS}::test_an_instruction_file_that_comes_later",),
    ),
    Mutant(
        "another model costs what the first one did",
        "RUN-19",
        "cli/terms.py",
        "msgspec.structs.replace(policy_in_force(record), price=exact)",
        "policy_in_force(record)",
        (f"{TERMS}::test_another_model_has_its_own_price",),
    ),
    Mutant(
        "another agent goes as deep as it says itself",
        "TREE-6",
        "live.py",
        "policy_in_force(ContextRecord(policy=other.policy)), children=depth)",
        "policy_in_force(ContextRecord(policy=other.policy)))",
        ("tests/test_live.py::test_another_agent_has_its_own_context_and_no_more_depth",),
    ),
    Mutant(
        "all that a fork inherits is shown as its parent's",
        "TREE-4",
        "cli/names.py",
        "        sessions -= isinstance(link.value, Session)\n",
        "        sessions = 1\n",
        (f"{NAMES}::test_each_session_has_its_sign",),
    ),
    Mutant(
        "two entries are shown by one name",
        "law 9",
        "cli/names.py",
        "    return {link: name for name, link in ids.items()}\n",
        """    return {link.id: f"^{link.seq}" for link in links}\n""",
        (f"{NAMES}::test_a_parent_that_counts_wrongly",),
    ),
    Mutant(
        "a hit is shown by a number that means another entry",
        "ST-5",
        "stores/catalog/indexing.py",
        "        seq = entry.seq if entry.seq > last_seq else None\n",
        "        seq = entry.seq\n",
        (f"{LISTING}::test_a_number_that_two_entries_have_means_the_first",),
    ),
    Mutant(
        "people are to type a cursor",
        "ST-4",
        "cli/listing.py",
        "    if more and asked.json:\n",
        "    if more:\n",
        (f"{LISTING}::test_people_are_told_a_number_and_programs_a_cursor",),
    ),
)
