# The targets a newcomer needs are demo and test; each sets up what it needs in .venv.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11, 2))' && echo $$p && break; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
SOURCES := schemas runtime producers consumers aggregator roles offline web ragtide tests benchmarks examples tools hatch_build.py

CODE := $(shell find schemas runtime producers consumers aggregator roles offline web ragtide tools -name '*.py' -o -name settings.md)

.PHONY: help demo core engines capacity story pictures house answers recorded-day test test-heavy test-lowest test-pythons instrumentations monitoring brokers browser deploy-files screenshots programs test-fast chaos stateful fuzz power record journeys check lint format types layers workflows wheel site lock release reference schemas bench guard profiles ingest covariates falls fittedproxy drawnsets preferences judge racing mixshift adjusted explained movedsteps movedtools callcosts canaries scaling recovery steady safety specimens pagespeed latency growth light peers soak livesoak speed corruptions models startup hostile giventexts install-size stats replayspeed simulations realtraffic clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 10

demo: .venv/.service ## run the demo: everything on an embedded Redis, until an alert fires
	$(BIN)/ragtide demo $(ARGS)

story: .venv/.dev ## play two days of traffic with known faults, and serve the page of it until Ctrl-C
	$(BIN)/python -m tests.support.story $(ARGS)

# Four at a time on two cores, because many tests wait: for a lease, a server or a process.
test: .venv/.reference ## run the tests: under ten minutes on two cores
	$(BIN)/python -m pytest --numprocesses 4 --dist worksteal -m "not heavy" $(ARGS)

test-heavy: .venv/.reference ## run the heavy tests, which test leaves out, and every property with eight times the examples; CI runs both
	$(BIN)/python -m pytest --numprocesses 4 --dist worksteal -m "heavy or hypothesis" --hypothesis-profile thorough $(ARGS)

# The published schemas are those of the newest Pydantic; earlier ones describe a data class in fewer words.
DESCRIBED := tests/schemas/test_wire.py::test_the_published_json_schemas_are_those_of_the_models tests/web/test_asyncapi.py::test_the_published_document_is_that_of_the_models

test-lowest: .venv/.reference ## run the tests of test-fast with the lowest versions of the libraries, in .venv-lowest
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-lowest
	$(BIN)/uv pip install --quiet --python .venv-lowest --resolution lowest-direct --editable '.[service,embedded,dev]'
	.venv-lowest/bin/python -m pytest -q --numprocesses 2 --dist worksteal -m "pure and not heavy" $(DESCRIBED:%=--deselect %) $(ARGS)

test-pythons: .venv/.reference ## run the tests of test-fast on the newest release of each other line of Python found here, in .venv-pythons; CI runs it
	for python in $$($(BIN)/python tools/pythons.py others); do \
		$$python --version && $(BIN)/uv venv --quiet --clear --python $$python .venv-pythons \
		&& $(BIN)/uv pip install --quiet --python .venv-pythons --editable '.[service,embedded,dev]' \
		&& .venv-pythons/bin/python -m pytest -q --numprocesses 2 --dist worksteal -m "pure and not heavy" --hypothesis-profile glance $(ARGS) || exit 1; done

instrumentations: .venv/.dev ## trace applications of LangChain, LlamaIndex, Haystack, ... and TypeScript into ragtide, after make programs; CI runs both
	$(BIN)/python -m tests.instrumentations.environments
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal tests/instrumentations/applications.py tests/instrumentations/constructions.py tests/instrumentations/typescript.py $(ARGS)

engines: .venv/.dev ## score a table with Ray, Dask and Spark on local clusters, and compare with one process to the bit; needs Java
	$(BIN)/python -m pytest tests/engines/engines.py $(ARGS)

monitoring: .venv/.dev ## run the tests beside real servers of monitoring, after make programs; CI runs both
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal tests/monitoring/alertmanager.py tests/monitoring/prometheus.py $(ARGS)

brokers: .venv/.dev ## run ragtide bridge beside real brokers: MQTT, NATS, RabbitMQ, Tansu; after make programs; CI runs both
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal tests/brokers/delivery.py tests/brokers/kills.py $(ARGS)

browser: .venv/.reference ## try every screen of the page in a real Chromium, also behind nginx and HAProxy, after make programs; CI runs both
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal tests/browser/screen_*.py $(ARGS)

deploy-files: .venv/.dev ## check the image, Compose, the chart and the units with helm, hadolint, systemd, ..., after make programs; CI runs it
	$(BIN)/python -m tests.deploy.checkers
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal tests/deploy/chart.py tests/deploy/image.py $(ARGS)

screenshots: .venv/.dev ## make the pictures of docs/live/page.md, after make programs
	$(BIN)/python -m tests.browser.screenshots $(ARGS)

pictures: .venv/.dev ## take pictures of every screen of the story, to look at, in build/pictures, after make programs
	$(BIN)/python -m tools.pictures $(ARGS)

programs: ## install Chromium, nginx, HAProxy, Alertmanager, Prometheus, Node.js, systemd and message brokers from Debian's packages, where they are missing; as root
	@packages=; missing() { package=$$1; shift; for name; do command -v $$name && return; done; packages="$$packages $$package"; }; \
	missing prometheus-alertmanager prometheus-alertmanager; missing prometheus promtool; missing nginx nginx; missing haproxy haproxy; \
	missing chromium chromium chromium-browser google-chrome; missing nodejs node; missing npm npm; missing systemd systemd-analyze; \
	missing mosquitto mosquitto; missing nats-server nats-server; missing rabbitmq-server rabbitmq-server; \
	test -z "$$packages" || { apt-get update -q && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends $$packages; }

test-fast: .venv/.reference ## run the tests that need neither Redis nor another process
	$(BIN)/python -m pytest -q --numprocesses 2 --dist worksteal -m "pure and not heavy" $(ARGS)

core: .venv/.dev ## import and try everything but the command line while ragtide_offline is missing; CI runs it
	$(BIN)/python -m pytest -q -p tests.support.without_laboratory tests/laboratory/apart.py tests/web/test_reading.py tests/aggregator/test_headlines.py $(ARGS)

chaos: .venv/.dev ## kill, pause and cut off everything for ten minutes, and check what was promised
	$(BIN)/python -m tests.chaos.run $(ARGS)

stateful: .venv/.dev ## drawn steps on a whole deployment, lost groups and repartitions among them; then check every number
	$(BIN)/python -m tests.chaos.stateful $(ARGS)

fuzz: .venv/.dev ## read 100,000 generated inputs of each kind, and compare with what they were made from
	$(BIN)/python -m tests.fuzz.run $(ARGS)

power: .venv/.dev ## cut the power of Redis again and again, and count what is lost and what counts twice
	$(BIN)/python -m tests.chaos.power_cuts $(ARGS)

record: .venv/.dev ## record 20,000 live interactions while workers and recorders die, replay them, and compare to the bit
	$(BIN)/python -m tests.end_to_end.recording_live $(ARGS)

journeys: .venv/.dev ## take the journeys of a new user from a fresh wheel, and keep the screens in build/journeys
	$(BIN)/python -m tests.journeys.record $(ARGS)

check: lint layers types workflows site wheel core house test test-pythons test-heavy guard programs instrumentations monitoring brokers browser deploy-files ## everything CI looks at

lint: .venv/.dev ## style and mistakes
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

format: .venv/.dev ## rewrite the code in the house style
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

types: .venv/.dev ## strict types
	$(BIN)/mypy

layers: .venv/.dev ## who may import whom
	$(BIN)/lint-imports

wheel: .venv/.reference ## build the sdist and the wheels, and try them in three fresh environments: about five minutes
	$(BIN)/python tests/wheel.py

site: .venv/.reference ## build the site strictly in build/site, and check every link of it
	$(BIN)/python -m tools.site

workflows: .venv/.dev ## mistakes and weak points of .github, action.yml and the workflow in deploy
	$(BIN)/actionlint -shellcheck $(BIN)/shellcheck -pyflakes ""
	$(BIN)/actionlint -shellcheck $(BIN)/shellcheck -pyflakes "" deploy/rollouts/github.yml
	$(BIN)/zizmor --offline --quiet .

lock: .venv/.dev ## write requirements-dev.txt, the versions that LOCKED=1 installs; ARGS=--upgrade takes the newest
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --extra service --extra embedded --extra dev --output-file requirements-dev.txt pyproject.toml $(ARGS)

release: .venv/.reference ## make in build/release what the tag TAG=v0.1.0 publishes: sdist, wheels, a bill of materials, notes
	$(BIN)/python -m tools.release "$(TAG)" build/release

reference: .venv/.reference ## write the pages of docs/reference that are made from the code; the targets that need them do

schemas: .venv/.dev ## write docs/schemas, docs/asyncapi.yaml, and the pages and files that are made from the code
	$(BIN)/python -m tools.pages docs

recorded-day: .venv/.dev ## replay a recorded day and write its estimates and alerts: two commits must write the same bytes
	$(BIN)/python tools/recorded_day.py $(or $(FILE),build/recorded_day.jsonl)

house: .venv/.dev ## print the measures of the tree beside those of ARGS=COMMIT, by default the one before
	$(BIN)/python -m tools.house $(ARGS)

answers: .venv/.dev ## play a story, and write all answers about it into FOLDER: two commits with equal answers write equal files; needs cc
	$(BIN)/python -m tools.answers $(or $(FOLDER),build/answers)

bench: .venv/.dev ## measure the processor time of each stage beside raw redis-py
	$(BIN)/python benchmarks/throughput.py $(ARGS)

guard: .venv/.dev ## fail when a stage, a producer's import or the fleet of 3,000 pipelines became slower than noise explains; CI runs a short form
	$(BIN)/python benchmarks/guard.py $(ARGS)

profiles: .venv/.dev ## draw where the processor time of each stage goes, in benchmarks/measured
	$(BIN)/python benchmarks/profiles.py benchmarks/measured $(ARGS)

capacity: .venv/.dev ## how costs grow with keys, documents, partitions, ..., and a fleet; write benchmarks/measured/capacity.md and unit costs
	$(BIN)/python benchmarks/capacity.py $(ARGS)

ingest: .venv/.dev ## measure traces and interactions over HTTP beside their ceilings; write benchmarks/measured/ingest.md
	$(BIN)/python benchmarks/ingest.py $(ARGS) > benchmarks/measured/ingest.md

judge: .venv/.dev ## measure how fast a worker labels with a judge, beside the ideal and the openai client
	$(BIN)/python benchmarks/judge.py $(ARGS)

scaling: .venv/.dev ## measure labeling with more worker processes and partitions
	$(BIN)/python benchmarks/scaling.py $(ARGS)

recovery: .venv/.dev ## measure how long estimates are stale when an aggregator is killed
	$(BIN)/python benchmarks/recovery.py $(ARGS)

steady: .venv/.dev ## measure an aggregator at a steady rate: processor, Redis input, memory
	$(BIN)/python benchmarks/steady.py $(ARGS)

latency: .venv/.dev ## measure how soon an interaction is in an estimate, an alert and on the screen; write benchmarks/measured/latency.md
	$(BIN)/python benchmarks/latency.py $(ARGS) > .latency.md
	mv .latency.md benchmarks/measured/latency.md

growth: .venv/.dev ## measure page, estimates, memory and restart with up to 100,000 keys in a partition; write benchmarks/measured/growth.md
	$(BIN)/python benchmarks/growth.py $(ARGS)

light: .venv/.dev ## measure what a user waits for, at BEFORE (a commit, or none) and now; write benchmarks/measured/light.md
	$(BIN)/python benchmarks/light.py $(if $(BEFORE),--before $(BEFORE)) $(ARGS) > .light.md
	mv .light.md benchmarks/measured/light.md

peers: .venv/.dev ## run other tools on the same items, in environments of their own; write benchmarks/measured/peers.md
	$(BIN)/python benchmarks/beside_peers.py $(ARGS) > .peers.md
	mv .peers.md benchmarks/measured/peers.md

pagespeed: .venv/.dev ## measure what 20 open pages cost, beside pages that poll JSON, and how soon a number is on the screen
	$(BIN)/python benchmarks/page.py $(ARGS)

specimens: .venv/.dev ## measure what specimens cost a worker
	$(BIN)/python benchmarks/specimens.py $(ARGS)

safety: .venv/.dev ## measure what the scripts and the checkpoints cost
	$(BIN)/python benchmarks/safety.py $(ARGS)

soak: .venv/.dev ## run for half an hour at the highest sustainable rate, and look at memory
	$(BIN)/python benchmarks/soak.py $(ARGS)

livesoak: .venv/.dev ## an hour of an application's traffic, and everything that could grow; write benchmarks/measured/soak.md
	$(BIN)/python benchmarks/soak.py --live $(ARGS) > benchmarks/measured/soak.md

speed: .venv/.dev ## measure the local labeler on one core
	$(BIN)/python benchmarks/local_labeler.py $(ARGS)

corruptions: .venv/.dev ## which failures the local labeler sees in ROWS=file (DATA names it) and in LABELED=files; write benchmarks/measured/corruptions.md
	$(BIN)/ragtide trust figures --corruptions $(ROWS) --labeler local --json > .corruptions.json
	$(BIN)/ragtide trust figures $(LABELED) --labeler local --json > .labels.json
	$(BIN)/python benchmarks/corruptions.py .corruptions.json --labels .labels.json --data "$(DATA)" --write > benchmarks/measured/corruptions.md
	$(BIN)/ruff format schemas/ragtide_schemas/measured_slopes.py
	rm .corruptions.json .labels.json

models: .venv/.dev ## the speed and memory of models as labelers; write benchmarks/measured/model_labelers.md
	$(BIN)/python benchmarks/model_labelers.py $(ARGS) > benchmarks/measured/model_labelers.md

startup: .venv/.dev ## measure the start of every command; write benchmarks/measured/startup.md
	$(BIN)/python benchmarks/startup.py $(ARGS) > benchmarks/measured/startup.md

hostile: .venv/.dev ## measure every function that reads foreign text on hostile inputs of 100 kB; write benchmarks/measured/hostile_forms.md
	$(BIN)/python benchmarks/hostile_forms.py $(ARGS) > .hostile.md
	mv .hostile.md benchmarks/measured/hostile_forms.md

giventexts: .venv/.dev ## measure how fast retrieved texts are found in a prompt; write benchmarks/measured/given_texts.md
	$(BIN)/python benchmarks/given_texts.py $(ARGS) > .given.md
	mv .given.md benchmarks/measured/given_texts.md

install-size: .venv/.dev ## measure the size of an installation with each extra; write benchmarks/measured/install_size.md
	$(BIN)/python benchmarks/install_size.py > benchmarks/measured/install_size.md

stats: .venv/.dev ## measure the statistics core beside river, one value at a time
	$(BIN)/python benchmarks/statistics_speed.py $(ARGS)

replayspeed: .venv/.dev ## measure metric events a second from Parquet through the aggregator's state
	$(BIN)/python benchmarks/replay_speed.py $(ARGS)
	$(BIN)/python benchmarks/replay_command.py

simulations: .venv/.dev ## simulate coverage, drift delays, prediction-powered estimates and shares of false alarms; write benchmarks/measured
	$(BIN)/python benchmarks/coverage.py > benchmarks/measured/intervals.md
	$(BIN)/python benchmarks/drift_delays.py > benchmarks/measured/drift.md
	$(BIN)/python benchmarks/prediction_powered.py > benchmarks/measured/prediction_powered.md
	$(BIN)/python benchmarks/judged_strata.py > benchmarks/measured/judged_strata.md
	$(BIN)/python benchmarks/criteria_coverage.py > benchmarks/measured/criteria_coverage.md
	$(BIN)/python benchmarks/annotation.py > benchmarks/measured/annotation.md
	$(BIN)/python benchmarks/clustered_pairs.py > benchmarks/measured/clustered_pairs.md
	$(BIN)/python benchmarks/sampled_traffic.py > benchmarks/measured/sampled_traffic.md
	$(BIN)/python benchmarks/false_discovery.py > benchmarks/measured/false_discovery.md
	$(BIN)/python benchmarks/live_false_discovery.py >> benchmarks/measured/false_discovery.md
	$(BIN)/python benchmarks/level_moves.py > benchmarks/measured/level_moves.md
	$(BIN)/python benchmarks/seasons.py > benchmarks/measured/seasons.md
	$(BIN)/python benchmarks/seasonal_rules.py > benchmarks/measured/seasonal_rules.md
	$(BIN)/python benchmarks/distribution_rules.py > benchmarks/measured/distribution_rules.md
	$(BIN)/python benchmarks/figures.py docs/assets

covariates: .venv/.dev ## the gain from covariates on RAGBench, ROWS=its file; write benchmarks/measured/covariates.md
	$(BIN)/python benchmarks/covariates.py $(ROWS) > benchmarks/measured/covariates.md

falls: .venv/.dev ## how soon falls are found, by the local labeler, a judge of a sample, and thumbs; ROWS=files of labeled rows; write benchmarks/measured/falls.md
	$(BIN)/python benchmarks/falls.py $(ROWS) > benchmarks/measured/falls.md

preferences: .venv/.dev ## correlation of metrics with people's preferences, PAIRS=a file of pairs, PUBLISHED=the paper's outputs; write benchmarks/measured/preferences.md
	$(BIN)/python benchmarks/preferences.py $(PAIRS) $(if $(PUBLISHED),--published $(PUBLISHED)) > benchmarks/measured/preferences.md

fittedproxy: .venv/.dev ## the gain from ragtide fit on RAGBench, ROWS=its file; needs lightgbm; write benchmarks/measured/fitted_proxy.md
	$(BIN)/python benchmarks/fitted_proxy.py $(ROWS) > benchmarks/measured/fitted_proxy.md

drawnsets: .venv/.dev ## labels that a drawn set needs beside uniform drawing, ROWS=files of RAGBench and ClapNQ; needs lightgbm; write benchmarks/measured/drawn_sets.md
	$(BIN)/python benchmarks/drawn_sets.py $(ROWS) > benchmarks/measured/drawn_sets.md

racing: .venv/.dev ## simulate races of 16 configs: work saved, mistakes made; write benchmarks/measured/racing.md
	$(BIN)/python benchmarks/racing.py > benchmarks/measured/racing.md

realtraffic: .venv/.dev ## simulate false alarms and delays on real traffic, beside others; write benchmarks/measured/real_traffic.md and pictures
	$(BIN)/python benchmarks/real_traffic.py --folder benchmarks/measured $(ARGS)
	$(BIN)/python benchmarks/continued_clusters.py > benchmarks/measured/continued_clusters.md
	$(BIN)/python benchmarks/first_answers.py > benchmarks/measured/first_answers.md
	$(BIN)/python benchmarks/figures.py docs/assets

mixshift: .venv/.dev ## simulate drifts of known cause: the split into mix and within; write benchmarks/measured/mix_shift.md
	$(BIN)/python benchmarks/mix_shift.py > benchmarks/measured/mix_shift.md

adjusted: .venv/.dev ## simulate drift within segments while their mix moves; write benchmarks/measured/adjusted_drift.md
	$(BIN)/python benchmarks/adjusted_drift.py > benchmarks/measured/adjusted_drift.md

explained: .venv/.dev ## simulate alerts of known cause: when and how they are explained; write benchmarks/measured/explained_alerts.md
	$(BIN)/python benchmarks/explained_alerts.py > benchmarks/measured/explained_alerts.md

movedsteps: .venv/.dev ## inject faults into steps of retrieval: which step the alert names; write benchmarks/measured/moved_steps.md
	$(BIN)/python benchmarks/moved_steps.py > benchmarks/measured/moved_steps.md

movedtools: .venv/.dev ## inject faults into tools of an agent: which tool the alert names; write benchmarks/measured/moved_tools.md
	$(BIN)/python benchmarks/moved_tools.py > benchmarks/measured/moved_tools.md

callcosts: .venv/.dev ## count the judge's calls and tokens on runs with 1, 4 and 16 calls; write benchmarks/measured/call_costs.md
	$(BIN)/python benchmarks/call_costs.py > benchmarks/measured/call_costs.md

canaries: .venv/.dev ## simulate releases: wrong verdicts, and answers until the right one; write benchmarks/measured/canaries.md
	$(BIN)/python benchmarks/canaries.py > benchmarks/measured/canaries.md

clean: ## remove the environment and caches
	rm -rf .venv .venv-lowest .venv-pythons .venv-instrumentations .venv-engines .venv-peers dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "ragtide needs Python 3.11.2 or newer: install it, or run make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/.service: .venv/bin/python pyproject.toml
	$(PIP) --editable '.[service,embedded]'
	@touch $@

.venv/.dev: .venv/bin/python pyproject.toml
	$(if $(LOCKED),$(PIP) --require-hashes --requirement requirements-dev.txt)
	$(PIP) $(if $(LOCKED),--no-deps) --editable '.[service,embedded,dev]'
	@touch $@ .venv/.service

.venv/.reference: .venv/.dev $(CODE)
	$(BIN)/python -m tools.pages docs --reference
	@touch $@
