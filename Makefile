# Tools are installed here; cargo finds cargo-deny through PATH.
export PATH := $(CURDIR)/.tools/bin:$(PATH)
export SAM_CLI_TELEMETRY := 0

# Which server `make run`, the tests and the measurements start: SERVER=redis or SERVER=valkey. Without it they take the one that
# is installed, and Redis if both are. A variable of this name in the environment means nothing.
ifeq ($(origin SERVER),command line)
export HONGBAO_REDIS_SERVER := $(shell scripts/install-tools.sh server '$(SERVER)')
$(if $(HONGBAO_REDIS_SERVER),,$(error SERVER=$(SERVER): no such server))
endif

.PHONY: help run demo audit check prose test test-web test-clients test-aws check-template fuzz evening simulate mutants chaos drill
.PHONY: bench growth size generate deploy preflight spike smoke destroy sam-local

# Lists the targets with the text after their ##, under the groups that ##@ begins.
help: ## Print this list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# LEDGER=amazon puts Amazon's DynamoDB Local in the place of the embedded database: for run, audit, test, chaos and drill.
# LEDGER=postgres puts PostgreSQL there, behind the same protocol: for test.
LEDGER ?= embedded
ifeq ($(filter embedded amazon postgres,$(LEDGER)),)
$(error LEDGER is embedded, amazon or postgres)
endif
ON_AMAZONS = $(filter amazon,$(LEDGER))
INSTALL_LEDGER = $(if $(ON_AMAZONS),scripts/install-tools.sh dynamodb-local)
BESIDE_LEDGER = $(if $(ON_AMAZONS),scripts/dynamodb-local.py,$(if $(filter postgres,$(LEDGER)),target/debug/beside-postgres))
DATA = .local$(if $(ON_AMAZONS),/amazon)

##@ Run

# announce PROGRAM,TEXT: says what is about to be built, if it was never built. Cargo shows its progress.
announce = [ -x "$${CARGO_TARGET_DIR:-target}/$(1)" ] || echo "Building $(2) the first time, seconds later"
ANNOUNCE_LOCAL = $(call announce,local/hongbao,the local stack: about 3 minutes)
# The subcommand that `make run` starts.
SUBCOMMAND = $(if $(SANDBOX),sandbox,dev)

# make run ARGS="--port 4000 --ephemeral", make run SERVER=valkey
# make run LEDGER=amazon    keeps its data in .local/amazon
# make run SANDBOX=1 ARGS="--seed 42"    for the tests of an app
run: ## Start the whole system on this machine
ifeq ($(LEDGER),amazon)
	@scripts/install-tools.sh
	@$(INSTALL_LEDGER)
	@$(ANNOUNCE_LOCAL)
	cargo build --profile local -p hongbao
	@scripts/dynamodb-local.py --keep $(DATA)/dynamodb "$${CARGO_TARGET_DIR:-target}/local/hongbao" $(SUBCOMMAND) \
	  --dynamodb-url {url} --data-dir $(DATA) $(ARGS)
else
	@subcommand=$$(scripts/install-tools.sh run $(SUBCOMMAND) $(ARGS)) && { $(ANNOUNCE_LOCAL); } && \
	  cargo run --profile local -p hongbao -- $$subcommand $(ARGS)
endif

demo: ## Start it with the page open on a rush of grabs
	@scripts/install-tools.sh
	@$(ANNOUNCE_LOCAL)
	cargo build --profile local -p hongbao
	@scripts/demo.sh $(ARGS)

# Audits the ledger of a running `make run`, or another one:
# make audit ARGS="--dynamodb-url http://localhost:8000 --table hongbao --since 24h"
audit: ## Check that a ledger balances
	@scripts/install-tools.sh
	@set -a; [ ! -f $(DATA)/stores.env ] || . ./$(DATA)/stores.env; cargo run --profile local -p admin -- audit $(ARGS)

##@ Test

# CUT=1 leaves out the dependencies, whose tool is built for minutes.
check: ## Lint code, documentation, dependencies, template and prose
	@scripts/install-tools.sh && scripts/install-tools.sh sam
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy --workspace --bin chaos --features chaos/crash-points --profile test -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
ifndef CUT
	@scripts/install-tools.sh deny
	cargo deny --log-level error check bans licenses sources
	@if cargo deny --log-level off fetch db >/dev/null 2>&1; then cargo deny --log-level error check advisories; \
	else echo "advisories: not checked, their database can't be reached"; fi
endif
	.tools/sam/bin/sam validate --lint --template template.yaml
	@$(MAKE) --no-print-directory prose

# make prose ARGS="docs/OPERATE.md" checks the words of some files only.
prose: ## Check words, sentences, links and anchors of documents and comments
	@scripts/install-tools.sh prose
	node --test --test-reporter=dot scripts/prose/prose.test.mjs
	node scripts/prose/prose.mjs $(ARGS)

# Machines that run tests sometimes stall for longer than a deployed function waits for Redis.
test test-web test-clients fuzz: export REDIS_CONNECT_TIMEOUT_MS = 10000
test test-web test-clients fuzz: export REDIS_RESPONSE_TIMEOUT_MS = 10000

# make test SERVER=valkey; CUT=1 runs only what depends on the server: the scripts and the connections.
# make test LEDGER=amazon, or LEDGER=postgres, runs only the tests that use a DynamoDB API; CUT=1 of them those of the ledger itself.
# Tests run the functions' binaries, so these are built first. Tests mostly wait for servers, hence more threads than cores.
test: export RUST_TEST_THREADS = $(shell expr $$(getconf _NPROCESSORS_ONLN) \* 3 / 2)
test: LEDGER_CUT = send:: settle:: audit::no audit::only memory_table::
ifneq ($(LEDGER),embedded)
test: TESTS = cargo test --workspace --test it $(if $(CUT),-- $(LEDGER_CUT),--test local --test process)
else
test: TESTS = $(if $(CUT),cargo test --workspace --lib redis:: && cargo test --workspace --test it scripts::,cargo test --workspace)
endif
test: ## Run all Rust tests
	@scripts/install-tools.sh && scripts/install-tools.sh rie && scripts/install-tools.sh postgres
	@$(INSTALL_LEDGER)
	cargo build --workspace --bins
	$(BESIDE_LEDGER) $(TESTS)

# Also compares the page's split with the engine's on 10,000 random packets. CUT=1 skips most browser tests.
test-web: ## Test the page in a real browser, and the JavaScript client
	@scripts/install-tools.sh && scripts/install-tools.sh web
	cargo build --workspace --bins
	target/debug/split-vectors 10000 1 > tests/web/vectors.jsonl
	npm --prefix tests/web run --silent check
	SPLIT_VECTORS=vectors.jsonl npm --prefix tests/web run --silent $(if $(CUT),test:cut,test)

# The packages are in target/package; the Python client in target/python.
test-clients: ## Pack both clients, make others with common generators, and run the examples with them
	@scripts/install-tools.sh && scripts/install-tools.sh web && scripts/install-tools.sh clients && scripts/install-tools.sh postgres && scripts/install-tools.sh matrix
	cargo build --workspace --bins
	cargo package --quiet --allow-dirty -p hongbao-client
	rm -rf target/python && mkdir -p target/python
	cd target/python && PATH="$(CURDIR)/.tools/clients/bin:$$PATH" openapi-python-client generate --path ../../openapi.yaml --fail-on-warning
	npm --prefix tests/web run --silent test:clients
	cargo test --workspace --test it -- --ignored --exact serve::a_bot_sends_packets_in_a_room_of_matrix

# make test-aws ARGS="-k roles"
test-aws: ## Deploy the templates to an emulator and compare them with the code
	@scripts/install-tools.sh && scripts/install-tools.sh aws && scripts/install-tools.sh sam
	cargo build --workspace --bins
	.tools/aws/bin/python -m pytest -q -p no:cacheprovider tests/aws $(ARGS)

# The transform makes plain CloudFormation. W3002: `sam deploy` uploads the nested templates.
check-template: ## Build the templates with SAM, and run cfn-lint and checkov on them
	@scripts/install-tools.sh aws && scripts/install-tools.sh sam && scripts/install-tools.sh checkov
	rm -rf target/aws target/built
	PATH="$(CURDIR)/tests/aws/stub:$$PATH" .tools/sam/bin/python tests/aws/built.py target/built
	.tools/aws/bin/python tests/aws/transformed.py target/aws
	.tools/aws/bin/cfn-lint --ignore-checks W1030 W3002 -- target/aws/default/template.yaml
	.tools/aws/bin/cfn-lint --ignore-checks W1030 -- stacks/*.yaml
	.tools/checkov/bin/checkov --config-file tests/aws/checkov.yaml --directory target/aws

# make fuzz ONLY=parsers MINUTES=30; make fuzz ONLY=api CASES=50 SEED=7, so many requests per operation
fuzz: ## Fuzz the API and every parser
	$(if $(filter parsers,$(ONLY)),,scripts/fuzz-api.sh)
	$(if $(filter api,$(ONLY)),,scripts/fuzz.sh)

evening: ## Tap as 20,000 users in five rounds with one limit, on two processes that are killed
	@scripts/install-tools.sh
	cargo build --workspace --bins
	EVENING=full cargo test --workspace --test it evening -- --nocapture --test-threads 1

##@ Test the protocol

# make simulate SEEDS=100000; repeat one with: make simulate SEED=17
# make simulate ENUMERATE=1 PATHS=1000000: orders of calls and faults in small worlds. MUTANT=no-slip-decision shows what a mutant breaks.
SEEDS ?= 10000
simulate: ## Run the use cases over in-memory stores that fail by seed
	cargo run --profile measured -p simulation --bin simulate -- $(if $(ENUMERATE),--enumerate $(if $(PATHS),--paths $(PATHS)),$(if $(SEED),--seed $(SEED),--seeds $(SEEDS))) $(if $(MUTANT),--mutant $(MUTANT))

# make mutants OF=rust     changes the code in one place at a time, and runs the tests of the library and the simulation;
# make mutants OF=lua      changes the scripts. SHARD=3/20: the fourth twentieth of them; ARGS="--file shared/src/domain/split.rs" or
#                          ARGS="--script grab.lua": one file. They list the changes that no test notices.
OF ?= protocol
mutants: ## Check that the simulation finds the protocol's mutants; OF=rust, OF=lua: that tests notice changes
	@scripts/install-tools.sh $(filter rust,$(OF))
ifeq ($(OF),rust)
	SIMULATION_SEEDS=100 cargo mutants --output target $(if $(SHARD),--shard $(SHARD)) $(ARGS)
else ifeq ($(OF),lua)
	scripts/mutants-lua.py $(if $(SHARD),--shard $(SHARD)) $(ARGS)
else
	cargo run --profile measured -p simulation --bin simulate -- --mutants --seeds $(SEEDS)
endif

# Processes, Redis and requests fail for MINUTES; then every answer is checked against the ledger.
# The report is in target/chaos.
MINUTES ?= 20
chaos: PROFILE ?= harness
# With -p, Cargo builds dependencies with that package's features only, so a finished workspace build would not be reused.
chaos: CHAOS = $(if $(filter dev,$(PROFILE)),--workspace,-p chaos) --bin chaos --features chaos/crash-points
chaos: ## Kill processes and stores under load, then check the ledger
	@scripts/install-tools.sh
	cargo build --profile $(PROFILE) $(CHAOS)
	@$(INSTALL_LEDGER)
	$(BESIDE_LEDGER) target/$(PROFILE:dev=debug)/chaos run --minutes $(MINUTES) $(ARGS)

# make drill ARGS="restore", loss, "outage --minutes 20", or "overload --times 10 --seconds 60"; ARGS="--seed 7" repeats the choices of a run. CI uses
# PROFILE=dev, the build of its tests, with ARGS="--short".
drill: PROFILE ?= measured
drill: DRILL = $(if $(filter dev,$(PROFILE)),--workspace --bins,-p hongbao -p admin -p tests --no-default-features --features admin/postgres --bin hongbao --bin hongbao-admin --bin drill)
drill: ## Restore the table, lose Redis, kill everything beside PostgreSQL; then check the ledger
	@scripts/install-tools.sh && scripts/install-tools.sh postgres
	cargo build --profile $(PROFILE) $(DRILL)
	@$(INSTALL_LEDGER)
	$(BESIDE_LEDGER) target/$(PROFILE:dev=debug)/drill $(ARGS)

##@ Measure

# make bench QUICK=1, or only some of it: make bench ARGS="--only A,B --scheme ours". The report is in target/bench;
# that of make bench SERVER=valkey is in target/bench-valkey.
# make bench ONLY=console      the views of the support page beside 100,000 users and 20,000 packets
bench: ## Compare this engine with every published design
ifeq ($(ONLY),console)
	@scripts/install-tools.sh && scripts/install-tools.sh web
	cargo build --profile local -p hongbao
	HONGBAO_PROFILE=local node tests/web/console-load.mjs
else
	@scripts/install-tools.sh && scripts/install-tools.sh postgres
	@$(call announce,measured/bench,the benchmark: about 20 minutes)
	cargo build --profile measured -p bench
	target/measured/bench $(if $(QUICK),--quick) $(ARGS)
endif

# Counts, and reads no clock. The page is in target/growth.
growth: ## Count what each action costs, by the size of a packet
	@scripts/install-tools.sh
	cargo test --workspace --test it growth::page_of_figures -- --ignored --nocapture

# Builds the functions for arm64 and checks the glibc that they need. make size ONLY=grab does only that, for one function.
size: ## Measure each deployed function's size, start time and memory
	@scripts/install-tools.sh lambda && scripts/install-tools.sh rie
	PATH="$(CURDIR)/.tools/lambda/bin:$$PATH" scripts/arm64.sh $(ONLY)
ifndef ONLY
	@$(MAKE) --no-print-directory bench ARGS="--deployed target/lambda --out target/size"
endif

# make generate ONLY=client      the JavaScript client's types and the forms of the support page from openapi.yaml
# make generate ONLY=actions     tests/aws/actions.json: which DynamoDB actions each function calls. make test-aws compares the roles with it
# make generate ONLY=pictures    the screenshots and the animation in docs/images, and the icons
# make generate ONLY=fairness    the plots and tables of docs/FAIRNESS.md
generate: ## Generate the files that are checked in
	@scripts/install-tools.sh && scripts/install-tools.sh web && scripts/install-tools.sh rie
ifneq ($(filter client,$(or $(ONLY),client)),)
	npm --prefix tests/web run types
	scripts/console-forms.mjs
endif
ifneq ($(filter actions,$(or $(ONLY),actions)),)
	cargo build --workspace --bins
	RENEW_ACTIONS=1 cargo test --workspace --test it functions::walk
endif
ifneq ($(filter pictures,$(or $(ONLY),pictures)),)
	cargo build --profile local -p hongbao
	HONGBAO_PROFILE=local SCREENSHOTS=1 npm --prefix tests/web run --silent pictures
endif
ifneq ($(filter fairness,$(or $(ONLY),fairness)),)
	npm --prefix tests/web run --silent fairness
endif

##@ Deploy

# make deploy ENV=prod. samconfig.toml has the parameters; docs/DEPLOY.md lists the prerequisites.
# If the stack serves the page (parameter Page), the page is uploaded too. ONLY=page uploads only that; ONLY=build only builds.
ENV ?= dev
STACK = $(or $(shell scripts/aws/region.py $(ENV) stack),$(error ENV=$(ENV) needs a stack))

# The targets that reach AWS use one region, which each of their tools gets in the variable that it reads. Without one they end here,
# before a build.
ON_AWS = deploy preflight spike destroy $(if $(filter command,$(origin ENV)),smoke)
ifneq ($(and $(filter-out build,$(or $(ONLY),all)),$(filter $(ON_AWS),$(MAKECMDGOALS))),)
$(if $(STACK),)
export AWS_REGION := $(shell scripts/aws/region.py $(ENV))
$(if $(AWS_REGION),,$(error ENV=$(ENV) needs one region))
export AWS_DEFAULT_REGION := $(AWS_REGION)
endif

# The environments of an account and region share SAM's bucket. `sam delete` takes all objects of a prefix away. Each deployment has a new
# release, hence new versions of the functions: a nested stack's output, such as Redis' address, changes without a change of the template.
# SAM knows a release by its first ten characters, which are the seconds.
deploy: ## Deploy a stack
ifneq ($(ONLY),page)
	@scripts/install-tools.sh sam
	$(if $(ONLY),,@.tools/sam/bin/python scripts/aws/credentials.py)
	@scripts/install-tools.sh lambda
	PATH="$(CURDIR)/.tools/lambda/bin:$$PATH" .tools/sam/bin/sam build
endif
ifeq ($(ONLY),)
	@echo "Release: $$(date +%s)-$$(git describe --always --dirty --abbrev=40 --exclude='*' || echo unknown)" >.aws-sam/release.yaml
	.tools/sam/bin/sam deploy --config-env $(ENV) --s3-prefix $(STACK)
	@has=$$(aws cloudformation describe-stacks --stack-name $(STACK) --query "Stacks[0].Outputs[?OutputKey=='Release'].OutputValue" --output text) && \
	  [ "Release: $$has" = "$$(cat .aws-sam/release.yaml)" ] || { echo "nothing was deployed: nobody executed the change set" >&2; exit 1; }
	scripts/protect.sh $(STACK)
endif
ifneq ($(ONLY),build)
	scripts/deploy-web.sh $(STACK)
endif

# make preflight ENV=prod. Reads with the credentials that `make deploy` would use, and changes nothing.
preflight: ## Say what would fail in a deployment, and how to mend it
	@scripts/install-tools.sh sam
	@.tools/sam/bin/python scripts/aws/preflight.py $(ENV)

# make spike ENV=dev. A stack of its own, with a few cents of cost, which it always deletes.
spike: ## Try in the account what the deployment relies on and no document states
	@scripts/install-tools.sh sam
	@.tools/sam/bin/python scripts/aws/spike.py $(ENV)

# make smoke                                     a local stack of its own
# make smoke URL=http://127.0.0.1:3000           the stack of a running `make run`; STORES: its stores.env, if not in .local
# make smoke ENV=dev                             a deployment, with users of its own pool; TOKENS=file: with users of yours
# make smoke ENV=dev URL=https://api.example/hongbao   the same, at its custom domain
# make smoke ENV=dev TEARDOWN=1                  and deletes it afterwards, with its table and its user pool
smoke: PROFILE ?= local
smoke: SMOKE = $(if $(filter dev,$(PROFILE)),--workspace --bins,-p hongbao -p admin)
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

# Asks first. The table and the user pool stay.
destroy: ## Delete a stack
	@scripts/install-tools.sh sam
	@printf 'Delete %s? Its table, its user pool and its backups stay. [y/N] ' $(STACK); read -r answer; [ "$$answer" = y ]
	scripts/deploy-web.sh $(STACK) --remove
	.tools/sam/bin/sam delete --config-env $(ENV) --no-prompts

# Calls each route, the walkthrough and each sample event, then ends. It prints what is missing.
# make sam-local SERVE=1       leaves the API up at http://127.0.0.1:3001
# make sam-local EVENT=send    sends events/send.json to its function, while SERVE=1 runs; or wallet, grab, view, settle, audit, operate
# Faster build: SAM_BUILD_MODE=debug make sam-local
sam-local: ## Test or serve the functions in SAM's containers with local stores
	@scripts/install-tools.sh && scripts/install-tools.sh sam && scripts/install-tools.sh lambda
	PATH="$(CURDIR)/.tools/lambda/bin:$$PATH" scripts/sam-local.sh $(if $(EVENT),invoke $(EVENT),$(if $(SERVE),serve))
