# wakelog: every verb there is. `make demo` and `make test` do all set-up themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
NODE := .node
# Many tests wait for processes and syncs, so three workers use two cores better than two do.
PROCESSES ?= 3

.PHONY: help demo test test-faults test-tools quick check lint docs coverage coverage-pure release fmt false-hits bench bench-peers mutants clean system
.DEFAULT_GOAL := help

help:  ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

$(VENV)/.ready: pyproject.toml
	@echo "setting up $(VENV): about a minute, once" >&2
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[all,dev]'
	@touch $@

# strace injects the faults that the storage tests need, pgbouncer pools connections as a server farm does, npm fetches
# the conformance suite of MCP, tmux is the terminal chats are tried on, systemd judges its units; nothing else comes from
# the system. What is there already is left alone. (An ordinary user's PATH may lack sbin.)
system:
	@missing=$$(PATH="$$PATH:/usr/sbin:/sbin"; for tool in strace pgbouncer npm tmux; do command -v $$tool >/dev/null || echo $$tool; done; \
	  command -v systemd-analyze >/dev/null || echo systemd); \
	  test -z "$$missing" \
	  || (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$missing) >/dev/null \
	  || { echo "needed, and not installed:" $$missing "- install with your package manager" >&2; exit 1; }

# The suite runs on a newer Node than most systems have: one comes with it, and is used for nothing else.
$(NODE)/.ready: Makefile | system
	npm install --prefix $(NODE) --ignore-scripts --no-save --no-audit --no-fund --silent \
	  node-linux-$$(node -p process.arch)@22.23.3 @modelcontextprotocol/conformance@0.1.16
	@touch $@

demo: $(VENV)/.ready  ## an agent is killed twice and wakes (`wakelog demo --tour`: what can be done with a log)
	@$(BIN)/wakelog demo

# The pure packages (log, projections, decide, redaction) and the cases: no server, no process, nothing to install from the system.
QUICK := tests/log tests/projections tests/decide tests/redaction tests/test_auditing.py tests/test_cases.py tests/test_format.py tests/test_golden.py

# `coverage-pure` runs the tests of the pure packages, so they are left out of the second run.
test: system $(NODE)/.ready  ## everything CI runs
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target check coverage-pure
	$(BIN)/pytest -n $(PROCESSES) --dist worksteal $(addprefix --ignore=,$(QUICK))

# The fault rigs: the short forms that `make test` has, too, and those that need root, FUSE, a loop device or minutes.
# Tests of one file stay in one process, so that no two of them use loop devices or a server of their own at once.
RIGS := tests/faults tests/stores/faults tests/laws/test_journals.py tests/laws/test_damaged_turns.py tests/kernel/test_sweep.py tests/recording/test_example_loops.py

test-faults: $(VENV)/.ready system  ## all fault rigs, on real devices too; writes their figures into docs/reliability.md
	$(BIN)/pytest -n $(PROCESSES) --dist loadfile -m "faults or not faults" $(RIGS) --write-figures

# The real agents, installed into .tools/ in pinned versions (up to 2.5 GB for all of them) and run against a scripted model.
TOOLS ?= all

test-tools: $(VENV)/.ready system $(NODE)/.ready  ## the real agents, installed in .tools/; writes docs/crash-comparison.md (TOOLS="pi gemini": some)
	$(BIN)/pytest -m real_tools --tools "$(TOOLS)" tests/real_tools --write-comparison

quick: lint  ## the linters and the tests of the pure packages: under 40 s, for the inner loop
	$(BIN)/pytest -q -n $(PROCESSES) $(QUICK)

check: lint docs  ## the linters, and the documentation site with its links

lint: $(VENV)/.ready  ## format, lint, types, direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: $(VENV)/.ready  ## the documentation site in site/; fails on warnings and on links that lead nowhere
	$(BIN)/python -m tools.build_site

# The floor of the pure packages is measured with their own tests, which need no other process. Raise it with the figure.
PURE := */wakelog/log/*,*/wakelog/projections/*,*/wakelog/decide/*,*/wakelog/redaction/*
PURE_FLOOR := 89

coverage-pure: $(VENV)/.ready  ## the tests of the pure packages, and how much of these packages they run: a part of `make test`
	rm -rf build/coverage && mkdir -p build/coverage
	$(BIN)/coverage run -m pytest -q -n $(PROCESSES) $(QUICK)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --include='$(PURE)' --fail-under=$(PURE_FLOOR)

# Processes that tests start are measured too, so a few tests of start-up fail here: measuring loads modules. Failed tests
# are listed and do not end the run; `make test` decides about them. The fault rigs are left out, because they count
# system calls and limit memory. The floor is `fail_under` in pyproject.toml.
coverage: $(VENV)/.ready system $(NODE)/.ready  ## how much of the source all tests but the fault rigs run: twice as long as `make test`
	rm -rf build/coverage && mkdir -p build/coverage
	-$(BIN)/coverage run -m pytest -q -n $(PROCESSES) --dist worksteal $(addprefix --ignore=,$(RIGS))
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

release: $(VENV)/.ready  ## sdist and wheel in dist/, each tried in a fresh environment: installed, `wakelog demo`
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/python -m tools.check_release dist

fmt: $(VENV)/.ready  ## put the code in order
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

false-hits: $(VENV)/.ready  ## what redaction changes and leaves; writes its figures into docs/reliability.md (WAKELOG_SAMPLES=folder: sessions too)
	$(BIN)/python -m bench.false_hits --show --write-figures

bench: $(VENV)/.ready  ## ratios to a floor measured in the same run; writes docs/performance.md (FULL=1: the large ones)
	$(BIN)/python -m bench $(if $(FULL),--full)

# One by one: a library that cannot be installed becomes a line of the table that says so.
$(PEERS)/.ready: bench/peers/requirements.txt pyproject.toml
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check --editable '.[all]'
	@while read -r peer; do $(PEERS)/bin/pip install --quiet --disable-pip-version-check "$$peer" \
	  || echo "not installed: $$peer" >&2; done < bench/peers/requirements.txt
	@touch $@

bench-peers: $(PEERS)/.ready system  ## the same work on other libraries; writes its section of docs/performance.md (FULL=1)
	$(PEERS)/bin/python -m bench.peers $(if $(FULL),--full)

mutants: $(VENV)/.ready system  ## plant every known bug and see a named test turn red
	$(BIN)/python -m tests.mutants

clean:  ## remove what was made
	rm -rf $(VENV) $(PEERS) $(NODE) .tools build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
