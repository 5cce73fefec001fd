# Tools are installed here; cargo finds cargo-deny through PATH.
export PATH := $(CURDIR)/.tools/bin:$(PATH)
export SAM_CLI_TELEMETRY := 0

# Which server `make run`, the tests and the measurements start: SERVER=redis or SERVER=valkey. Without it they take the one that
# is installed, and Redis if both are. A variable of this name in the environment means nothing.
ifeq ($(origin SERVER),command line)
export HONGBAO_REDIS_SERVER := $(shell scripts/install-tools.sh server '$(SERVER)')
$(if $(HONGBAO_REDIS_SERVER),,$(error SERVER=$(SERVER): no such server))
endif

.PHONY: help run demo test test-web test-clients pictures client fairness check audit model simulate conformance mutants chaos drill pressure bench journal size
.PHONY: fuzz fuzz-api mutants-code mutants-lua sbom build deploy deploy-web rollback destroy check-template test-aws arm64 sam-local
.PHONY: growth record-actions watch prose nightly preflight smoke

# Lists the targets with the text after their ##, under the groups that ##@ begins.
help: ## Print this list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# LEDGER=amazon puts Amazon's DynamoDB Local in the place of the embedded database: for run, watch, audit, test, chaos and drill.
LEDGER ?= embedded
ifeq ($(filter embedded amazon,$(LEDGER)),)
$(error LEDGER is embedded or amazon)
endif
ON_AMAZONS = $(filter amazon,$(LEDGER))
INSTALL_LEDGER = $(if $(ON_AMAZONS),scripts/install-tools.sh dynamodb-local)
BESIDE_LEDGER = $(if $(ON_AMAZONS),scripts/dynamodb-local.py)
DATA = .local$(if $(ON_AMAZONS),/amazon)

##@ Run

# announce PROGRAM,TEXT: says what is about to be built, if it was never built. Cargo shows its progress.
announce = [ -x "$${CARGO_TARGET_DIR:-target}/$(1)" ] || echo "Building $(2) the first time, seconds later"
ANNOUNCE_LOCAL = $(call announce,local/local,the local stack: about 3 minutes)

# make run ARGS="--port 4000 --ephemeral", make run SERVER=valkey
# make run LEDGER=amazon    keeps its data in .local/amazon
run: ## Start the whole system on this machine
	@scripts/install-tools.sh
	@$(INSTALL_LEDGER)
	@$(ANNOUNCE_LOCAL)
ifeq ($(LEDGER),amazon)
	cargo build --profile local -p local
	@scripts/dynamodb-local.py --keep $(DATA)/dynamodb "$${CARGO_TARGET_DIR:-target}/local/local" \
	  --dynamodb-url {url} --data-dir $(DATA) $(ARGS)
else
	cargo run --profile local -p local -- $(ARGS)
endif

demo: ## Start it with the page open on a rush of grabs
	@scripts/install-tools.sh
	@$(ANNOUNCE_LOCAL)
	cargo build --profile local -p local
	@scripts/demo.sh $(ARGS)

# The functions under cargo-lambda's emulator at http://127.0.0.1:9201, with the stores of a running `make run`. The first
# call builds a function; a call after a change builds it again. docs/DEPLOY.md shows how to call them.
watch: ## Serve the functions from source, rebuilt on change
	@scripts/install-tools.sh lambda
	@[ -f $(DATA)/stores.env ] || { echo "watch: there are no stores; make run starts them" >&2; exit 1; }
	@set -a; . ./$(DATA)/stores.env; AWS_REGION=local AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local; \
	exec .tools/lambda/bin/cargo-lambda lambda watch --invoke-address 127.0.0.1 --invoke-port 9201 $(ARGS)

# Audits the ledger of a running `make run`, or another one:
# make audit ARGS="--dynamodb-url http://localhost:8000 --table hongbao --since 24h"
audit: ## Check that a ledger balances
	@scripts/install-tools.sh
	@set -a; [ ! -f $(DATA)/stores.env ] || . ./$(DATA)/stores.env; cargo run --profile local -p admin -- audit $(ARGS)

##@ Test

check: ## Lint code, documentation, dependencies, template and prose
	@scripts/install-tools.sh && scripts/install-tools.sh deny && scripts/install-tools.sh sam
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy --workspace --bin chaos --features chaos/crash-points --profile test -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
	cargo deny --log-level error check bans licenses sources
	@if cargo deny --log-level off fetch db >/dev/null 2>&1; then cargo deny --log-level error check advisories; \
	else echo "advisories: not checked, their database can't be reached"; fi
	.tools/sam/bin/sam validate --lint --template template.yaml
	@$(MAKE) --no-print-directory prose

# make prose ARGS="docs/DEPLOY.md" checks the words of some files only. scripts/prose/exceptions.mjs has the exceptions.
prose: ## Check words, sentences, links and anchors of documents and comments
	@scripts/install-tools.sh prose
	node --test --test-reporter=dot scripts/prose/prose.test.mjs
	node scripts/prose/prose.mjs $(ARGS)
	node scripts/prose/links.mjs

# Machines that run tests sometimes stall for longer than a deployed function waits for Redis.
test test-web test-clients fuzz-api: export REDIS_CONNECT_TIMEOUT_MS = 10000
test test-web test-clients fuzz-api: export REDIS_RESPONSE_TIMEOUT_MS = 10000

# make test SERVER=valkey; CUT=1 runs only what depends on the server: the scripts and the connections.
# make test LEDGER=amazon runs only the tests that use a DynamoDB API; CUT=1 of them those of the ledger itself.
# Tests run the functions' binaries, so these are built first. Tests mostly wait for servers, hence more threads than cores.
test: export RUST_TEST_THREADS = $(shell expr $$(getconf _NPROCESSORS_ONLN) \* 3 / 2)
test: LEDGER_CUT = send:: settle:: audit::no audit::only memory_table:: amazon:: rush::ten_thousand rush::redis_is_wiped
ifeq ($(LEDGER),amazon)
test: TESTS = cargo test --workspace --test it $(if $(CUT),-- $(LEDGER_CUT),--test local --test process --test rehearsal --bin bench)
else
test: TESTS = $(if $(CUT),cargo test --workspace --lib redis:: && cargo test --workspace --test it scripts::,cargo test --workspace)
endif
test: ## Run all Rust tests
	@scripts/install-tools.sh && scripts/install-tools.sh rie
	@$(INSTALL_LEDGER)
	cargo build --workspace --bins
	$(BESIDE_LEDGER) $(TESTS)

# Also compares the page's split with the engine's on 10,000 random packets. CUT=1 skips most browser tests.
test-web: ## Test the page in a real browser, and the JavaScript client
	@scripts/install-tools.sh && scripts/install-tools.sh web
	cargo build --workspace --bins
	target/debug/split-vectors 10000 1 > tests/web/vectors.jsonl
	npm --prefix tests/web run --silent check && npm --prefix tests/web run --silent types:check
	SPLIT_VECTORS=vectors.jsonl npm --prefix tests/web run --silent $(if $(CUT),test:cut,test)

# The packages are in target/package; the Python client in target/python.
test-clients: ## Pack both clients, make one for Python, and run the examples with them
	@scripts/install-tools.sh && scripts/install-tools.sh web && scripts/install-tools.sh openapi
	cargo build --workspace --bins
	cargo package --quiet --allow-dirty -p hongbao-client
	rm -rf target/python && mkdir -p target/python
	cd target/python && PATH="$(CURDIR)/.tools/openapi/bin:$$PATH" openapi-python-client generate --path ../../openapi.yaml --fail-on-warning
	npm --prefix tests/web run --silent test:clients

# make test-aws ARGS="-k roles"
test-aws: ## Deploy the templates to an emulator and compare them with the code
	@scripts/install-tools.sh && scripts/install-tools.sh aws
	.tools/aws/bin/python -m pytest -q -p no:cacheprovider tests/aws $(ARGS)

# The transform makes plain CloudFormation. W3002: `sam deploy` uploads the nested templates. W2001: only the transform uses Release.
check-template: ## Run cfn-lint and checkov on the transformed templates
	@scripts/install-tools.sh sam && scripts/install-tools.sh aws && scripts/install-tools.sh checkov
	.tools/sam/bin/sam validate --lint --template template.yaml
	rm -rf target/aws
	.tools/aws/bin/python tests/aws/transformed.py target/aws/default
	.tools/aws/bin/python tests/aws/transformed.py target/aws/all Page=true Events=true \
	  WebhookUrl=https://app.example WebhookSecretArn=arn:aws:secretsmanager:ap-east-1:123456789012:secret:webhooks \
	  GrabCapacityProviderArn=arn:aws:lambda:ap-east-1:123456789012:capacity-provider:grabs
	.tools/aws/bin/cfn-lint --ignore-checks W1030 W3002 W2001 -- target/aws/default/template.yaml
	.tools/aws/bin/cfn-lint --ignore-checks W1030 -- stacks/*.yaml
	.tools/checkov/bin/checkov --config-file tests/aws/checkov.yaml --directory target/aws

# 1,000 requests per operation, then each parser for MINUTES: make fuzz MINUTES=10
fuzz: fuzz-api ## Fuzz the API and every parser
	scripts/fuzz.sh

# make fuzz-api CASES=50 SEED=7
fuzz-api: ## Call each operation of openapi.yaml with generated requests
	scripts/fuzz-api.sh

##@ Test the protocol

# Show what one mutant breaks: make model MUTANT=no-slip-decision
model: ## Explore every state of the protocol for small sizes
	cargo run -q -p model -- $(if $(MUTANT),--mutant $(MUTANT))

# make simulate SEEDS=100000; repeat one with: make simulate SEED=17
SEEDS ?= 10000
simulate: ## Run the use cases over in-memory stores that fail by seed
	cargo run --profile measured -p simulation --bin simulate -- $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

# make conformance SEEDS=500; repeat one with: make conformance SEED=17
conformance: ## Replay the simulation's steps in the model, which must accept them
	cargo run --profile measured -p simulation --bin conformance -- $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

mutants: ## Check that the simulation finds every mutant, and which ones the model rejects
	cargo run --profile measured -p simulation --bin simulate -- --mutants --seeds $(SEEDS)
	cargo run --profile measured -p simulation --bin conformance -- --mutants --seeds 1000

# Processes, Redis and requests fail for MINUTES; then every answer is checked against the ledger.
# The report is in target/chaos. Add up several: target/harness/chaos sum target/chaos/run-*.json
MINUTES ?= 20
chaos: PROFILE ?= harness
# With -p, Cargo builds dependencies with that package's features only, so a finished workspace build would not be reused.
chaos: CHAOS = $(if $(filter dev,$(PROFILE)),--workspace,-p chaos) --bin chaos --features chaos/crash-points
chaos: ## Kill processes and stores under load, then check the ledger
	@scripts/install-tools.sh
	cargo test --profile $(PROFILE) $(CHAOS)
	cargo build --profile $(PROFILE) $(CHAOS)
	@$(INSTALL_LEDGER)
	$(BESIDE_LEDGER) target/$(PROFILE:dev=debug)/chaos run --minutes $(MINUTES) $(ARGS)

# make drill ARGS="restore", loss or folder; ARGS="--seed 7" repeats the choices of a run. CI uses PROFILE=dev, the build of its
# tests, with ARGS="--short".
drill: PROFILE ?= measured
drill: DRILL = $(if $(filter dev,$(PROFILE)),--workspace --bins,-p local -p admin -p tests --no-default-features --bin local --bin hongbao-admin --bin drill)
drill: ## Restore the table, lose Redis, fill the disk; then check the ledger
	@scripts/install-tools.sh
	cargo build --profile $(PROFILE) $(DRILL)
	@$(INSTALL_LEDGER)
	$(BESIDE_LEDGER) target/$(PROFILE:dev=debug)/drill $(ARGS)

# CI runs a part of each of these; docs/RELIABILITY.md says which part.
nightly: ## Run the long tests: model, simulation, mutants, page, chaos, drills, fuzzing, a shard of mutants-code
	$(MAKE) model
	$(MAKE) simulate SEEDS=100000
	$(MAKE) conformance
	$(MAKE) mutants
	$(MAKE) mutants-lua
	$(MAKE) growth
	$(MAKE) test SERVER=valkey
	$(MAKE) test LEDGER=amazon
	$(MAKE) test-web
	$(MAKE) chaos MINUTES=60
	$(MAKE) drill
	$(MAKE) fuzz MINUTES=10
	$(MAKE) mutants-code SHARD=$$(expr $$(date +%j) % 20)/20

# make mutants-lua SHARD=3/20, of one script: ARGS="--script grab.lua". target/mutants-lua/verdicts.txt has each verdict.
mutants-lua: ## Change the Lua scripts in small ways and list changes that no test finds
	@scripts/install-tools.sh && scripts/install-tools.sh mutants-lua
	@if [ "$$(uname -s)" != Linux ]; then echo "make mutants-lua: skipped, it changes programs, which macOS refuses to run"; else \
	cargo build --workspace --bins && $(MUTANTS) -m unittest --quiet && $(MUTANTS) mutants_lua.py $(if $(SHARD),--shard $(SHARD)) $(ARGS); fi
MUTANTS = cd $(CURDIR)/tests/mutants && $(CURDIR)/.tools/mutants/bin/python -B

# make mutants-code SHARD=3/20, of one module: ARGS="--module service/grab". target/mutants-code/verdicts.txt has each verdict.
mutants-code: ## Change the code in small ways and list changes that no test finds
	@scripts/install-tools.sh && scripts/install-tools.sh mutants-code
	$(MUTANTS) -m unittest --quiet && $(MUTANTS) mutants_code.py $(if $(SHARD),--shard $(SHARD)) $(ARGS)

##@ Measure

# make bench QUICK=1, or only some of it: make bench ARGS="--only A,B --scheme ours". The report is in target/bench;
# that of make bench SERVER=valkey is in target/bench-valkey. ARGS="--only million --users 20000 --slips 2000" takes seconds.
bench: ## Compare this engine with every published design
	@scripts/install-tools.sh && scripts/install-tools.sh rie
	@$(call announce,measured/bench,the benchmark: about 20 minutes)
	cargo build --profile measured -p bench
	target/measured/bench $(if $(QUICK),--quick) $(ARGS)

# make pressure ARGS="backlog --holds 1000000", ARGS="overload --times 3", ARGS="metastable --times 10 --seconds 60",
# ARGS="steady --minutes 20", ARGS=views or ARGS="webhooks --per-second 1000"
pressure: ## Measure overload and what it leaves behind, a large outbox, load for long, views and webhooks
	@scripts/install-tools.sh
	cargo build --profile measured -p local -p tests --no-default-features --bin local --bin pressure
	target/measured/pressure $(ARGS)

# Writes an export of a ledger, then the journal of a day in it, then reconciles it: make journal MOVEMENTS=1000000
MOVEMENTS ?= 10000000
journal: ## Measure the journal of a day, and its reconciliation
	cargo build --profile measured -p local -p admin -p tests --no-default-features --bin hongbao-admin --bin generate-export
	scripts/journal.sh target/measured $(MOVEMENTS)

# Counts, and reads no clock. The page is in target/growth; scripts/record-bench.py target/growth puts it into docs/SCALE.md.
growth: ## Count what each action costs by slips, packets and readers
	@scripts/install-tools.sh
	cargo test --workspace --test it growth::page_of_figures -- --ignored --nocapture

size: arm64 ## Measure each deployed function's size, start time and memory
	@$(MAKE) --no-print-directory bench ARGS="--only functions --deployed target/lambda --out target/size"

# make arm64 ONLY=grab
arm64: ## Build the functions as deployed; print sizes and the glibc they need
	@scripts/install-tools.sh lambda
	PATH="$(CURDIR)/.tools/lambda/bin:$$PATH" scripts/arm64.sh $(ONLY)

##@ Generate files that are checked in

# The types are checked in.
client: ## Generate the JavaScript client's types from openapi.yaml
	@scripts/install-tools.sh web
	npm --prefix tests/web run types

pictures: ## Take the screenshots and the animation in docs/images
	@scripts/install-tools.sh && scripts/install-tools.sh web
	@$(ANNOUNCE_LOCAL)
	cargo build --profile local -p local
	HONGBAO_PROFILE=local SCREENSHOTS=1 npm --prefix tests/web run --silent pictures

fairness: ## Draw the plots and tables of docs/FAIRNESS.md
	@scripts/install-tools.sh web
	npm --prefix tests/web run --silent fairness

# A walk through all functions writes tests/aws/actions.json; make test-aws compares the roles with it.
record-actions: ## Record which DynamoDB actions each function calls
	@scripts/install-tools.sh && scripts/install-tools.sh rie
	cargo build --workspace --bins
	RENEW_ACTIONS=1 cargo test -p tests --test it functions::actions

##@ Deploy

# The first step of a deployment; the output is in .aws-sam.
build: ## Build the functions for AWS Lambda
	@scripts/install-tools.sh sam && scripts/install-tools.sh lambda
	PATH="$(CURDIR)/.tools/lambda/bin:$$PATH" .tools/sam/bin/sam build

# make deploy ENV=prod. samconfig.toml has the parameters; docs/DEPLOY.md lists the prerequisites.
# If the stack serves the page (parameter Page), the page is uploaded too.
ENV ?= dev
STACK = $(or $(shell sed -n '/^\[$(ENV)\.global/,/^\[/s/^stack_name = "\(.*\)"/\1/p' samconfig.toml),\
$(error samconfig.toml has no environment $(ENV): it has $(shell sed -n 's/^\[\(.*\)\.global\..*/\1/p' samconfig.toml)))
deploy: build ## Deploy a stack
	scripts/release.py $(ENV) .tools/sam/bin/sam deploy --config-env $(ENV)
	scripts/protect.sh $(STACK)
	scripts/deploy-web.sh $(STACK)

# make preflight ENV=prod. Reads with the credentials that `make deploy` would use, and changes nothing.
preflight: ## Say what would fail in a deployment, and how to mend it
	@scripts/install-tools.sh sam
	@.tools/sam/bin/python scripts/aws/preflight.py $(ENV)

# make smoke                                     a local stack of its own
# make smoke URL=http://127.0.0.1:3000           the stack of a running `make run`; STORES: its stores.env, if not in .local
# make smoke ENV=dev                             a deployment, with users of its own pool; TOKENS=file: with users of yours
# make smoke ENV=dev URL=https://api.example/hongbao   the same, at its custom domain
# make smoke ENV=dev TEARDOWN=1                  and deletes it afterwards, with its table and its user pool
smoke: PROFILE ?= local
smoke: SMOKE = $(if $(filter dev,$(PROFILE)),--workspace --bins,-p local -p admin)
smoke: ## Prove a deployment or the local stack: deposits, sends, grabs, refunds, an audit
ifeq ($(origin ENV),command line)
	@scripts/install-tools.sh sam
	@.tools/sam/bin/python scripts/aws/smoke.py --env $(ENV) $(if $(URL),--url $(URL)) $(if $(TOKENS),--tokens $(TOKENS)) $(if $(TEARDOWN),--teardown)
else
	@scripts/install-tools.sh
	@$(if $(filter dev,$(PROFILE)),,$(ANNOUNCE_LOCAL))
	cargo build --profile $(PROFILE) $(SMOKE)
	@python3 scripts/aws/smoke.py --programs "$${CARGO_TARGET_DIR:-target}/$(PROFILE:dev=debug)" $(if $(URL),--url $(URL)) $(if $(STORES),--stores $(STORES))
endif

# make deploy-web ENV=prod
deploy-web: ## Upload only the page
	scripts/deploy-web.sh $(STACK)

# make rollback ENV=prod, or of one function: make rollback ENV=prod ARGS="Grab 12"
rollback: ## Send requests to the functions' older versions
	scripts/rollback.sh $(STACK) $(ARGS)

# Asks first. The table and the user pool stay.
destroy: ## Delete a stack
	@scripts/install-tools.sh sam
	scripts/deploy-web.sh $(STACK) --remove
	.tools/sam/bin/sam delete --config-env $(ENV)

# Calls each route, the walkthrough and each sample event, then ends. It prints what is missing.
# make sam-local SERVE=1       leaves the API up at http://127.0.0.1:3001
# make sam-local EVENT=send    sends events/send.json to its function, while SERVE=1 runs; or wallet, grab, view, settle, audit, operate
# Faster build: SAM_BUILD_MODE=debug make sam-local
sam-local: ## Test or serve the functions in SAM's containers with local stores
	@scripts/install-tools.sh && scripts/install-tools.sh sam && scripts/install-tools.sh lambda && scripts/install-tools.sh aws
	PATH="$(CURDIR)/.tools/lambda/bin:$$PATH" scripts/sam-local.sh $(if $(EVENT),invoke $(EVENT),$(if $(SERVE),serve))

sbom: ## List what is shipped, as CycloneDX
	scripts/sbom.sh
