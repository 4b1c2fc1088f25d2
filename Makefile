# Everything lives in .venv: Python packages, Java (a wheel) and the jars of Kafka and Spark (.venv/cache).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DOCS := $(VENV)/.docs
EXTRAS ?= all
READY := $(VENV)/.ready
ifneq ($(origin EXTRAS),file)
READY := $(VENV)/.ready-$(shell echo $(EXTRAS) | tr , -)
endif

PYTEST := $(BIN)/python -m pytest
# auto: as many as keep the CPUs busy, as far as memory suffices (tests/support/workers.py)
PARALLEL := --numprocesses $(or $(WORKERS),auto) --dist worksteal
NEEDS := broker or docker or jvm or spark
USUAL := not long and not release
PURE := -m "$(USUAL) and not ($(NEEDS))" $(PARALLEL)
FAST := -m "$(USUAL) and not slow and not ($(NEEDS))" $(PARALLEL)
FIRST := $(VENV)/pure-tests.xml
PURE_FILES := $(VENV)/pure-files.txt
# The tests start thousands of members and commands; without compiled modules each start takes twice the CPU.
unexport PYTHONDONTWRITEBYTECODE

# Where no terminal shows the progress of pip and MkDocs: a line each 5 s. $(PATIENTLY) WHAT COMMAND
PATIENTLY := sh -c 'if [ -t 1 ]; then exec "$$@"; fi; begin=$$(date +%s); \
	(while sleep 5 >/dev/null 2>&1; do echo "$$0: $$(($$(date +%s) - begin)) s"; done) & ticks=$$!; \
	"$$@"; code=$$?; kill $$ticks; exit $$code'

.DEFAULT_GOAL := help
.PHONY: setup demo test test-fast test-newest test-release test-long kafkatest soak mutate lint rooms dist release-check format bench docs pictures clean help

##@ set up
setup: $(READY)  ## create .venv with all dependencies; EXTRAS=harness,confluent does without Spark and other clients

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "error: $(PYTHON) is older than 3.10; set PYTHON=<a newer one>" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "error: no venv module for $(PYTHON); on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 2; }
	@echo "setup, 1 of 3: pip"
	@$(PATIENTLY) 'setup, 1 of 3' $(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@echo "setup, 2 of 3: the packages of the extra '$(EXTRAS)' and of the tests"
	@$(PATIENTLY) 'setup, 2 of 3' $(BIN)/python -m pip install --constraint constraints.txt --editable '.[$(EXTRAS)]' --group dev
	@echo "setup, 3 of 3: Java, and the jars that these packages need"
	@$(PATIENTLY) 'setup, 3 of 3' $(BIN)/python -m kafka_assignors.jvm fetch
	@touch $(READY) $(VENV)/.ready

clean:  ## remove .venv, caches and runs
	rm -rf $(VENV) runs dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help:  ## show this list
	@awk 'BEGIN { FS = ":.*## " } /^##@ / { printf "%s%s\n", groups++ ? "\n" : "", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-13s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ run
demo: $(READY)  ## the main job: real broker, partitioners, groups, election, verdicts, Spark, one HTML page
	$(BIN)/kafka-assignors demo $(or $(ARGS),--full)

soak: $(READY)  ## ten minutes of random faults, eight members, 64 partitions (ARGS='--minutes 60 --seed 7')
	$(BIN)/kafka-assignors test soak $(ARGS)

##@ check
format: $(READY)  ## format, and fix what ruff can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(READY)  ## formatting, linting, strict types, names in the tests, import contracts, structure of the source tree
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini
	$(BIN)/lint-imports
	$(BIN)/python -m tests.structure

test-fast: $(READY)  ## the quick ones of the tests that need no broker, Java, Spark or Docker, with few examples
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-fast} $(PYTEST) $(FAST) $(ARGS)

# pytest ends with 5 if no test is of a part, as with ARGS=FILE.
test: $(READY)  ## the test suite, first what needs no broker, Java, Spark or Docker; REQUIRE_DOCKER=1 makes a missing Docker engine an error, WORKERS=4 runs four at a time
	@rm -f $(PURE_FILES); export PURE_FILES=$(PURE_FILES); first=0; rest=0; \
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-fast} $(PYTEST) $(PURE) --junitxml=$(FIRST) $(ARGS) || first=$$?; \
	case $$first in 0|5) ;; *) exit $$first;; esac; \
	PURE_TESTS=$(FIRST) $(PYTEST) -m "$(USUAL) and ($(NEEDS))" $(PARALLEL) $(ARGS) || rest=$$?; \
	if [ $$rest -eq 5 ]; then exit $$first; fi; exit $$rest

test-newest: $(READY)  ## the assignors' tests against the newest kafka-python, and its development version if available
	.ci/newest

test-release: $(READY)  ## what CI runs beside `make test`: further clients, versions and cases of what it proves once
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-fast} $(PYTEST) -m "release and not long" $(PARALLEL) $(ARGS)

test-long: $(READY)  ## what needs no broker with all examples, then those that take minutes: big fuzzes and matrices, soaks, defects of other clients
	@$(PYTEST) -m "not long and not ($(NEEDS))" $(PARALLEL) $(ARGS) || [ $$? -eq 5 ]
	$(PYTEST) -m "long or (release and ($(NEEDS)))" --timeout=1800 $(PARALLEL) $(ARGS)

kafkatest: $(READY)  ## Kafka's own system tests with our member, as root (KAFKA_SOURCE=<checkout of apache/kafka>; ARGS='--client java')
	KAFKA_SOURCE='$(KAFKA_SOURCE)' $(BIN)/python -m tests.kafkatest $(ARGS)

rooms: $(READY)  ## structure of the source tree: modules per folder, floors, circles of imports, long functions
	$(BIN)/python -m tests.structure

dist: $(READY)  ## wheel and sdist in dist/, to install elsewhere: pip install 'dist/kafka_assignors-….whl[kafka-python]'
	$(BIN)/python -m build --outdir dist

release-check: $(READY)  ## wheel and sdist: checked, audited, installed clean on each Python, published to an index on loopback (ARGS=--release)
	$(BIN)/python .ci/release_check.py $(ARGS)

##@ measure
bench: $(READY)  ## all benchmarks, quick form (ARGS= for the full one)
	$(BIN)/python -m benchmarks all $(or $(ARGS),--quick)

$(DOCS): pyproject.toml constraints.txt | $(READY)
	@echo "docs: the packages of MkDocs"
	@$(PATIENTLY) 'docs: pip' $(BIN)/python -m pip install --quiet --constraint constraints.txt --group docs
	@touch $(DOCS)

docs: $(DOCS)  ## the documentation as a site in build/docs, which opens without a network; a dead link is an error
	@NO_MKDOCS_2_WARNING=1 $(PATIENTLY) 'docs: mkdocs' $(BIN)/python -m mkdocs build --strict
	@echo "build/docs/index.html"

pictures: $(READY)  ## draw the docs' pictures again (headless Chromium), record the terminal session, run the notebook
	$(BIN)/python -m benchmarks.load_picture
	$(BIN)/python -m benchmarks.page_pictures
	$(BIN)/python -m benchmarks.terminal_session
	$(BIN)/python -m benchmarks.pipeline_pictures

mutate: $(READY)  ## change the checker in 400 small ways, one at a time: its tests must notice 90 % (ARGS='--sample 100 --seed 2')
	$(BIN)/python -m tests.mutation $(ARGS)
