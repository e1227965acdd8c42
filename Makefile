# Every target makes its own set-up first (tests/setup/). That takes under a second when nothing is missing.
#   PYTHON=python3.12     the interpreter of the virtual environment (3.11 or newer; default: python3)
#   CTCTL_CACHE=DIR       what every clone can share, unpacked OVN trees above all (default: ~/.cache/ctctl)
PYTHON ?= python3
SET_UP := $(PYTHON) -m tests.setup
BIN    := .venv/bin
PYTEST := $(BIN)/python -m pytest
CHECKED := ctctl tests

.DEFAULT_GOAL := help

# What is tested is this clone, with the modules of its own environment.
unexport PYTHONPATH PYTHONHOME

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.* ## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name what; do \
		printf '  %-18s %s\n' "$$name" "$$what"; done

.PHONY: demo
demo: ## the main job on a private, real OVN, in under a minute; KEEP=1 leaves it running
	@$(SET_UP) demo
	@KEEP=$(KEEP) $(BIN)/python -m tests.demo

.PHONY: test
test: ## all fast tests: unit, real kernel, real OVN
	@$(SET_UP) test
	@$(PYTEST) -m "not slow" --numprocesses 2 --dist loadfile

.PHONY: test-slow
test-slow: ## tests of minutes, or with a machine of their own
	@$(SET_UP) test-slow
	@$(PYTEST) -m slow || { code=$$?; [ $$code -eq 5 ] && echo "no slow test exists" || exit $$code; }

.PHONY: check
check: lint ## what to run before each commit: lint and the unit tests, under a minute
	@$(PYTEST) -m "not host and not ovn and not slow" --numprocesses 2

.PHONY: lint
lint: ## format, lint, types and import contracts
	@$(SET_UP) check
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: ## format the code, mend what ruff can mend
	@$(SET_UP) check
	$(BIN)/ruff format $(CHECKED)
	$(BIN)/ruff check --fix $(CHECKED)

.PHONY: bench
bench: ## what it costs: counts and flushes, reaction, scrapes, the central database
	@$(SET_UP) bench
	@$(BIN)/python -m tests.bench.kernel
	@$(BIN)/python -m tests.bench.reaction
	@$(BIN)/python -m tests.bench.scrape
	@$(BIN)/python -m tests.bench.central_database

.PHONY: bench-stall
bench-stall: ## stalls of a really blocked vswitchd, on real kernels in QEMU
	@$(SET_UP) bench-stall
	@$(BIN)/python -m tests.bench.stall

.PHONY: docs
docs: ## write the generated pages of docs/reference anew
	@$(SET_UP) check
	$(BIN)/python -m ctctl.config.reference > .venv/configuration.md && mv .venv/configuration.md docs/reference/
	$(BIN)/ctctl metrics -o markdown > .venv/metrics.md && mv .venv/metrics.md docs/reference/
	$(BIN)/python -m ctctl.cli.manual > .venv/ctctl.1 && mv .venv/ctctl.1 docs/reference/

.PHONY: test-fresh
test-fresh: ## make demo and make test on freshly unpacked Debian 12 and 13
	@$(SET_UP) test-fresh
	@$(PYTHON) -m tests.setup.fresh_root bookworm trixie

.PHONY: pins
pins: ## resolve the dependencies anew into .ci/constraints.txt
	@$(PYTHON) -m tests.setup.pins

.PHONY: clean
clean: ## remove what was made in this clone (not the cache)
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage* dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
