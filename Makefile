# wakelog: every verb there is. `make demo` and `make test` do all set-up themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROCESSES ?= 2

.PHONY: help demo test check fmt bench mutants clean system
.DEFAULT_GOAL := help

help:  ## what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 18

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[all,dev]'
	@touch $@

# strace injects the faults that the storage tests need; nothing else comes from the system.
system:
	@command -v strace >/dev/null || (apt-get update -qq && apt-get install -qq -y strace >/dev/null) \
	  || { echo "strace is needed: install it with your package manager" >&2; exit 1; }

demo: $(VENV)/.ready  ## an agent is killed twice and wakes (`wakelog demo --tour`: what can be done with a log)
	@$(BIN)/wakelog demo

test: check system  ## everything CI runs
	$(BIN)/pytest -n $(PROCESSES) --dist worksteal

check: $(VENV)/.ready  ## format, lint, types, direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

fmt: $(VENV)/.ready  ## put the code in order
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.ready  ## ratios to a floor measured in the same run; writes docs/performance.md (FULL=1: the large ones)
	$(BIN)/python -m bench $(if $(FULL),--full)

mutants: $(VENV)/.ready system  ## plant every known bug and see a named test turn red
	$(BIN)/python -m tests.mutants

clean:  ## remove what was made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
