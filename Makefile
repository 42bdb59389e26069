# Every target sets up what it needs: Python >= 3.10 is all a machine must have. PYTHON=python3.12 picks one.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
export PYTHON
# What pypaimon, PySpark 3.5 and PyFlink run on, where PYTHON is newer than they know: 3.11 for 3.12 and later.
OLDER_PYTHON ?= $(PYTHON)
# Tests start hundreds of interpreters: what one has compiled, the next ones read.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
PAIMON_BIN := .venv-paimon/bin
DEV := .venv/.stamp
COMPILED := .venv/.compiled
PAIMON := .venv-paimon/.stamp
SPARK35 := .venv-spark35/.stamp
SPARK4 := .venv-spark4/.stamp
SPARK41 := .venv-spark41/.stamp
FLINK120 := .venv-flink120/.stamp
FLINK21 := .venv-flink21/.stamp
FLINK117 := tools/flink117/target/flink/.stamp
BROWSER := .venv-browser/.stamp
PEERS := .venv-peers/.stamp
PEERS_OLDER := .venv-peers-older/.stamp
CLASSES := .venv-spark35/classes.jsa .venv-spark4/classes.jsa
# JVMs of tests live for seconds. What the second compiler takes from two cores it doesn't give back; and what
# each would load anew is in an archive, where tests take longer than that does.
QUICK := -Xlog:disable -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
quickly = SHORT=$(SHORT) JDK_JAVA_OPTIONS="$(QUICK) \"-XX:SharedArchiveFile=$(CURDIR)/$(1)/classes.jsa\"" $(1)/bin/python
JAR := putifabsent/spark/putifabsent-hadoop.jar
# What unmodified writers on PySpark 3.5 and on 4.1 need, and what tests of PySpark 4 do.
SPARK_JARS := tools/spark/target/jars/.stamp
SPARK41_JARS := tools/spark41/target/jars/.stamp
SPARK4_JARS := tools/spark4/target/jars/.stamp
FLINK120_JARS := tools/flink120/target/jars/.stamp
FLINK21_JARS := tools/flink21/target/jars/.stamp
FLINK117_JARS := tools/flink117/target/jars/.stamp
DOCS_SCRIPTS := .cache/docs_scripts/.stamp
MAVEN := hadoop/mvnw --batch-mode --quiet

# Processes that run tests side by side: one more than two cores, for tests wait for servers.
JOBS ?= 3
# SHORT=1: the servers that are built in a minute or two, and short runs.
SHORT ?=
SERVERS := versitygw fake-gcs-server azurite dynamodb-local postgresql zookeeper $(if $(SHORT),,gofakes3 minio s3s-fs)
# What pypaimon's environment, with its older fsspec and pyarrow, must pass as well: what rests on their releases.
# Which arbiter decides rests on none of them, nor do memory and how patterns are spelled: other tests have that.
PAIMON_TESTS := $(wildcard tests/doors/test_paimon*.py) \
	$(patsubst %,tests/fsspec_plugin/test_%.py,abstract arrow async chaining files promotion transactions unchanged)
# Where schedules are played: to collect all tests takes each process longer than to collect these.
PROOFS := tests/models tests/shim
CHECKED := putifabsent tests hatch_build.py docs/tables.py hadoop/errors.py $(wildcard tools/*.py bench)

.PHONY: help
help: ## say what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(PAIMON) ## race 8 writers on a Paimon table, without and with putifabsent
	$(PAIMON_BIN)/putifabsent demo

.PHONY: test
test: $(DEV) $(PAIMON) ## run the tests, then those of pypaimon's environment: a few minutes
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal
	$(PAIMON_BIN)/python -m pytest -n $(JOBS) -o addopts="--import-mode=importlib --strict-markers -ra" -m "not servers and not clouds and not proof" -k "not s3-ballot and not ByAnother and not memory-native and not InMemory and not glob_edge" $(PAIMON_TESTS)

# Processes that begin side by side would each compile all that they import.
$(COMPILED): $(DEV)
	$(BIN)/python -m pytest --collect-only -q | tail -n 3
	touch $@

.PHONY: test-servers
test-servers: $(DEV) ## build real servers (once) and race them; SHORT=1 leaves out three of them
	tools/servers/install.sh $(SERVERS)
	PUTIFABSENT_SERVERS="$(SERVERS)" SHORT=$(SHORT) LONG=$(if $(SHORT),,1) $(BIN)/python -m pytest -n 2 --dist loadscope -m servers

.PHONY: test-hadoop
test-hadoop: $(DEV) ## build the adapter for the JVM, and run Hadoop's own suites and ours on it: two minutes
	tools/servers/install.sh versitygw
	$(BIN)/python -m tests.servers versitygw $(MAVEN) --file hadoop/pom.xml verify

.PHONY: test-spark
test-spark: test-hadoop $(JAR) $(SPARK_JARS) $(SPARK41_JARS) $(SPARK4_JARS) $(SPARK41) $(CLASSES) ## that, then PySpark 3.5, 4.1 and 4 with unmodified writers; SHORT=1 asks each thing once, of one format or one way
	tools/servers/install.sh azurite fake-gcs-server
	$(MAKE) --no-print-directory --jobs=2 spark-older spark-newer spark-apart

# Side by side: of two cores, one of these alone uses two thirds. The last one begins when another has ended: tests
# of 3.5 whose drivers are their own.
APART := tests/spark/test_docs.py tests/spark/test_mount.py tests/test_packages.py
.PHONY: spark-older spark-newer spark-apart
spark-older:
	$(call quickly,.venv-spark35) -m pytest -m spark -v tests/spark $(APART:%=--ignore=%) 2>&1 | sed -u 's/^/3.5: /'
spark-apart:
	$(call quickly,.venv-spark35) -m pytest -m spark -v $(APART) 2>&1 | sed -u 's/^/3.5: /'
spark-newer:
	$(call quickly,.venv-spark41) -m pytest -m spark -v tests/spark/test_races.py $(if $(SHORT),,tests/spark/test_docs.py) 2>&1 | sed -u 's/^/4.1: /'
	$(call quickly,.venv-spark4) -m pytest -m "spark and not formats" -v tests/spark 2>&1 | sed -u 's/^/4.3: /'

.PHONY: test-flink
test-flink: $(DEV) $(JAR) $(FLINK120) $(FLINK120_JARS) $(if $(SHORT),,$(FLINK21) $(FLINK21_JARS) $(FLINK117) $(FLINK117_JARS) $(SPARK35) $(SPARK_JARS)) ## run unmodified jobs on clusters of Flink 1.20 and 2.1, parts of which are killed, and Hudi's on 1.17; SHORT=1 takes 1.20 alone
	tools/servers/install.sh versitygw
	SHORT=$(SHORT) $(BIN)/python -m pytest -m flink -v tests/flink

.PHONY: test-peers
test-peers: $(PEERS) $(if $(SHORT),,$(PEERS_OLDER)) ## run peers' own suites stock and guarded, and compare them test by test; SHORT=1 runs those of a few minutes
	$(if $(SHORT),,tools/servers/install.sh azurite fake-gcs-server)
	.venv-peers/bin/python -m tests.peers $(if $(SHORT),--short)

.PHONY: test-browser
test-browser: $(BROWSER) docs ## look at reports and documentation in Chromium, as on a desktop, a phone and in the dark: some minutes; SHORT=1 leaves out pages that look like others
	SHORT=$(SHORT) CHROMIUM="$$(tools/chromium.sh)" .venv-browser/bin/python -m pytest -n 2 -m browser tests/test_browser.py

.PHONY: proof
proof: $(DEV) ## play every schedule of a few processes, then those of more: an hour and a half; SHORT=1 plays the former
	SHORT=$(SHORT) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "exhaustive and not proof" $(PROOFS)
	$(if $(SHORT),,$(BIN)/python -m pytest -n $(JOBS) -m proof -v --timeout=7200 $(PROOFS))

.PHONY: lint
lint: $(DEV) ## check style, types, the arrows between modules and the rules of the house
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy $(CHECKED)
	$(BIN)/lint-imports
	$(BIN)/python tools/house.py

.PHONY: format
format: $(DEV) ## let ruff set the layout, and write what the code itself knows: tables, the adapter's errors
	$(BIN)/ruff check --select I --fix
	$(BIN)/ruff format
	$(BIN)/python docs/tables.py
	$(BIN)/python hadoop/errors.py

$(DOCS_SCRIPTS): tools/docs_scripts.sh
	$< $(@D)
	touch $@

.PHONY: docs
docs: $(DEV) $(DOCS_SCRIPTS) ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	install -D --mode 644 --target-directory site/scripts .cache/docs_scripts/*.js
	! grep -rlE "src=.https?://" site --include="*.html" # no page asks another host

.PHONY: bench
bench: $(DEV) ## measure guarded creates against s3fs and bare obstore, side by side
	$(BIN)/python bench/create.py

.PHONY: bench-arbiters
bench-arbiters: $(DEV) ## count what each arbiter sends, and set 64 writers at one log: 15 minutes; SHORT=1 takes one
	tools/servers/install.sh dynamodb-local
	$(BIN)/python bench/arbiters.py $(if $(SHORT),--quick)

.PHONY: bench-simulate
bench-simulate: $(DEV) ## measure the collision simulation against a set union in plain Python: half a minute
	$(BIN)/python bench/simulate.py

.PHONY: bench-spark-simulate
bench-spark-simulate: $(SPARK4) ## run the simulation on standalone clusters of one and two workers: a quarter of an hour; SHORT=1 takes a minute or two
	.venv-spark4/bin/python bench/spark_simulate.py --experiment 3 $(if $(SHORT),--runs 50000,--runs 1000000)

.PHONY: bench-timeline
bench-timeline: $(DEV) ## read 10,000 archived instants of a Hudi table from local disk
	$(BIN)/python bench/timeline.py

.PHONY: bench-spark-timeline
bench-spark-timeline: $(SPARK4) ## read the same by PySpark 4, in 1, 2 and 4 partitions
	.venv-spark4/bin/python bench/spark_timeline.py

.PHONY: bench-clocks
bench-clocks: $(DEV) ## take instants by 16 processes from each clock, half of them with wrong wall clocks: an hour; SHORT=1 takes a fiftieth, SOURCES="postgresql://..." others
	tools/servers/install.sh dynamodb-local postgresql zookeeper
	$(BIN)/python -m bench.clocks $(SOURCES) $(if $(WRONG),--wrong $(WRONG)) $(if $(SHORT),--instants 200)

.PHONY: bench-slots
bench-slots: $(DEV) $(PAIMON) ## have 2 to 32 writers append to one Delta log, Paimon table and Iceberg table, with slots and without, and draw the page's figures: a quarter of an hour
	$(BIN)/python -m bench.slots --page

.PHONY: bench-life
bench-life: $(DEV) ## live a table's year by each arbiter, in memory and on S3 servers, and see that nothing is unknown or grows: hours; SHORT=1 takes minutes
	$(if $(SHORT),,tools/servers/install.sh versitygw dynamodb-local)
	$(BIN)/python -m bench.life $(if $(SHORT),--quick,--s3 versitygw --dynamodb dynamodb-local)

.PHONY: bench-service
bench-service: $(DEV) ## measure creations through the coordination service beside those of a process itself
	$(BIN)/python bench/service.py

.PHONY: bench-flood
bench-flood: $(JAR) $(SPARK35) ## flood the coordination service with strangers while threads of a JVM call it: three minutes
	.venv-spark35/bin/python -m bench.flood

.PHONY: bench-spark
bench-spark: $(DEV) $(JAR) $(SPARK_JARS) $(SPARK35) ## race unmodified writers on Spark without and with putifabsent, and measure what it costs: an hour; SHORT=1 takes a quarter
	tools/servers/install.sh versitygw
	.venv-spark35/bin/python bench/spark_races.py $(if $(SHORT),--commits 3)
	.venv-spark35/bin/python bench/spark_cost.py $(if $(SHORT),--pairs 2 --mebibytes 128)

.PHONY: bench-flink
bench-flink: $(DEV) $(JAR) $(FLINK120) $(FLINK120_JARS) ## measure what the shim costs a checkpoint of unmodified jobs on Flink: five minutes
	tools/servers/install.sh versitygw
	$(BIN)/python -m bench.flink

.PHONY: bench-tower
bench-tower: $(DEV) $(JAR) $(SPARK_JARS) $(SPARK35) ## race Hudi's writers on Spark with the control tower, without it, and by Hudi's own ways: hours; SHORT=1 takes a quarter
	tools/servers/install.sh versitygw zookeeper
	.venv-spark35/bin/python bench/tower.py $(if $(SHORT),--commits 3)

.PHONY: bench-services
bench-services: $(JAR) $(SPARK_JARS) $(SPARK35) ## have tables of each format live through 1,000 appends and all services, their commits looked at, and see that none is refused: hours; SHORT=1 takes a quarter
	tools/servers/install.sh versitygw
	.venv-spark35/bin/python -m bench.services $(if $(SHORT),--commits 40)

.PHONY: truth
truth: $(DEV) ## ask every client who won when an answer is lost, and write the table of the documentation
	$(BIN)/python bench/truth.py --markdown docs/explanation/lost-answers.md

# --- environments and their locks ---------------------------------------------------------------------------------

# A stamp newer than its lock: nothing to do, and nothing is asked of any index.
$(DEV): LOCK := locks/dev.txt
$(PAIMON): LOCK := locks/paimon.txt
$(DEV): locks/dev.txt
$(PAIMON): locks/paimon.txt
$(SPARK35): LOCK := locks/spark35.txt
$(SPARK41): LOCK := locks/spark41.txt
$(SPARK4): LOCK := locks/spark4.txt
$(FLINK120): LOCK := locks/flink120.txt
$(FLINK21): LOCK := locks/flink21.txt
$(SPARK35): locks/spark35.txt
$(SPARK41): locks/spark41.txt
$(SPARK4): locks/spark4.txt
$(FLINK120): locks/flink120.txt
$(FLINK21): locks/flink21.txt
$(BROWSER): LOCK := locks/browser.txt
$(BROWSER): locks/browser.txt
$(PEERS): LOCK := locks/peers.txt
$(PEERS_OLDER): LOCK := locks/peers-older.txt
$(PEERS): locks/peers.txt
$(PEERS_OLDER): locks/peers-older.txt
$(PAIMON) $(SPARK35) $(FLINK120) $(FLINK21) $(PEERS_OLDER): override PYTHON := $(OLDER_PYTHON)
$(DEV) $(PAIMON) $(SPARK35) $(SPARK41) $(SPARK4) $(FLINK120) $(FLINK21) $(BROWSER) $(PEERS) $(PEERS_OLDER): locks/install.sh locks/uv.txt pyproject.toml
	locks/install.sh $(@D) $(LOCK)
	touch $@

COMPILE = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.10 --generate-hashes \
	--no-emit-index-url --custom-compile-command "make lock"

.PHONY: lock
lock: $(DEV) ## resolve the newest versions into locks/ (not tied to any index host)
	$(COMPILE) --group uv --output-file locks/uv.txt
	$(COMPILE) pyproject.toml --extra all --group build --group test --group lint --group docs --group bench \
		--output-file locks/dev.txt
	$(COMPILE) pyproject.toml --extra arrow --extra demo --extra dynamodb --extra redis --group build --group test-paimon \
		--output-file locks/paimon.txt
	$(COMPILE) pyproject.toml --extra spark --group build --group spark35 --output-file locks/spark35.txt
	$(COMPILE) pyproject.toml --extra spark --group build --group spark41 --output-file locks/spark41.txt
	$(COMPILE) pyproject.toml --extra azure --extra gcs --extra spark --group build --group spark4 --output-file locks/spark4.txt
	$(COMPILE) --group build --group flink120 --output-file locks/flink120.txt
	$(COMPILE) --group build --group flink21 --output-file locks/flink21.txt
	$(COMPILE) --no-deps --group flink117 --output-file locks/flink117.txt
	$(COMPILE) pyproject.toml --extra lab --extra s3 --extra timeline --group build --group browser \
		--output-file locks/browser.txt
	$(COMPILE) pyproject.toml --extra azure --extra gcs --extra iceberg --extra s3 --group build --group peers \
		--output-file locks/peers.txt
	$(COMPILE) pyproject.toml --extra azure --extra gcs --extra paimon --extra s3 --group build --group peers-older \
		--output-file locks/peers-older.txt
	$(COMPILE) --no-deps --group peers-sdists --output-file locks/peers-sdists.txt

$(FLINK117): tools/flink117/unpack.sh locks/flink117.txt $(FLINK120)
	$< .venv-flink120 $(@D)
	touch $@

.venv-spark%/classes.jsa: .venv-spark%/.stamp tests/spark/classes.py
	SPARK_SUBMIT_OPTS="$(QUICK) -XX:ArchiveClassesAtExit=$@" $(@D)/bin/python -m tests.spark.classes

# --- for the JVM ---------------------------------------------------------------------------------------------------

.PHONY: jar
jar: $(JAR) ## build the adapter for the JVM, and lay it where the wheel takes it from

$(JAR): hadoop/pom.xml $(shell find hadoop/src/main -type f)
	$(MAVEN) --file hadoop/pom.xml -Dmaven.test.skip=true package
	cp hadoop/target/putifabsent-hadoop.jar $@

tools/%/target/jars/.stamp: tools/%/pom.xml
	$(MAVEN) --file $< dependency:copy-dependencies
	touch $@

$(FLINK21_JARS): tools/flink120/pom.xml

.PHONY: release
release: $(DEV) ## build what a release consists of into dist/: wheel, sdist, SBOMs, hashes
	tools/release/build.sh

.PHONY: clean
clean: ## remove what was made, but for the servers
	rm -rf .venv .venv-browser .venv-paimon .venv-peers .venv-peers-older .venv-spark35 .venv-spark41 .venv-spark4 .venv-flink120 .venv-flink21 $(JAR) hadoop/target tools/*/target site build dist .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
