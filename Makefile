# What the tools are installed to; cargo finds cargo-deny there.
export PATH := $(CURDIR)/.tools/bin:$(PATH)
export SAM_CLI_TELEMETRY := 0

.PHONY: run demo test test-web pictures client fairness check audit model simulate mutants chaos pressure bench size
.PHONY: fuzz fuzz-api mutants-code sbom build deploy deploy-web destroy check-template test-aws arm64 sam-local
.PHONY: record-actions instructions watch

# The whole system on this machine: make run ARGS="--port 4000 --ephemeral"
run:
	@scripts/install-tools.sh
	cargo run --release -p local -- $(ARGS)

# The same, and the page with a rush on it.
demo:
	@scripts/install-tools.sh
	cargo build --release -p local
	@scripts/demo.sh $(ARGS)

# Machines that run tests stall now and then for longer than a deployed function waits for Redis.
test test-web fuzz-api: export REDIS_CONNECT_TIMEOUT_MS = 10000
test test-web fuzz-api: export REDIS_RESPONSE_TIMEOUT_MS = 10000

# The tests run the functions' own programs, so these are built first. They wait for servers more than they compute.
test: export RUST_TEST_THREADS = $(shell expr $$(getconf _NPROCESSORS_ONLN) \* 3 / 2)
test:
	@scripts/install-tools.sh && scripts/install-tools.sh rie
	cargo build --workspace --bins
	cargo test --workspace

# The page in a real browser, its client, and its split against the engine's on 10,000 random packets.
# CUT=1 leaves out most of the browser.
test-web:
	@scripts/install-tools.sh && scripts/install-tools.sh web
	cargo build --workspace --bins
	target/debug/split-vectors 10000 1 > tests/web/vectors.jsonl
	npm --prefix tests/web run --silent check && npm --prefix tests/web run --silent types:check
	SPLIT_VECTORS=vectors.jsonl npm --prefix tests/web run --silent $(if $(CUT),test:cut,test)

# The pictures of the page in docs/images, of a release build: a rush on them is as quick as it is.
pictures:
	@scripts/install-tools.sh && scripts/install-tools.sh web
	cargo build --release -p local
	HONGBAO_PROFILE=release SCREENSHOTS=1 npm --prefix tests/web run --silent pictures

# The client's types, from openapi.yaml; they are checked in.
client:
	@scripts/install-tools.sh web
	npm --prefix tests/web run types

# The plots and tables of docs/FAIRNESS.md.
fairness:
	@scripts/install-tools.sh web
	npm --prefix tests/web run --silent fairness

# Holds a ledger against itself: that of a running `make run`, or another one:
# make audit ARGS="--dynamodb-url http://localhost:8000 --table hongbao --since 24h"
audit:
	@scripts/install-tools.sh
	@set -a; [ ! -f .local/stores.env ] || . ./.local/stores.env; cargo run --release -p admin -- audit $(ARGS)

# The use cases over stores that misbehave by seed: make simulate SEEDS=100000; one of them again: make simulate SEED=17
SEEDS ?= 10000
simulate:
	cargo run --release -p simulation --bin simulate -- $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

# The seeds that find planted bugs.
mutants:
	cargo run --release -p simulation --bin simulate -- --mutants --seeds $(SEEDS)

check:
	@scripts/install-tools.sh && scripts/install-tools.sh deny && scripts/install-tools.sh sam
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy --workspace --bin chaos --features chaos/crash-points --profile test -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
	cargo deny --log-level error check bans licenses sources
	@if cargo deny --log-level off fetch db >/dev/null 2>&1; then cargo deny --log-level error check advisories; \
	else echo "advisories: not checked, their database can't be reached"; fi
	.tools/sam/bin/sam validate --lint --template template.yaml

# The functions for AWS Lambda, in .aws-sam: the first step of a deployment.
build:
	@scripts/install-tools.sh sam && scripts/install-tools.sh lambda
	PATH="$(CURDIR)/.tools/lambda/bin:$$PATH" .tools/sam/bin/sam build

# A stack with the parameters of samconfig.toml; docs/DEPLOY.md says what it needs: make deploy ENV=prod
# Where the stack has the page (parameter Page), it is uploaded too.
ENV ?= dev
STACK = $(shell sed -n '/^\[$(ENV)\.global/,/^\[/s/^stack_name = "\(.*\)"/\1/p' samconfig.toml)
deploy: build
	.tools/sam/bin/sam deploy --config-env $(ENV)
	scripts/deploy-web.sh $(STACK)

# The page alone: make deploy-web ENV=prod
deploy-web:
	scripts/deploy-web.sh $(STACK)

# Takes a stack down. It asks first. The table and the user pool stay.
destroy:
	@scripts/install-tools.sh sam
	scripts/deploy-web.sh $(STACK) --remove
	.tools/sam/bin/sam delete --config-env $(ENV)

# template.yaml after the SAM transform, in the eyes of cfn-lint and checkov.
check-template:
	@scripts/install-tools.sh sam && scripts/install-tools.sh aws && scripts/install-tools.sh checkov
	.tools/sam/bin/sam validate --lint --template template.yaml
	.tools/aws/bin/python tests/aws/transformed.py target/aws/template.json
	.tools/aws/bin/python tests/aws/transformed.py target/aws/all.json Page=true Events=true \
	  GrabCapacityProviderArn=arn:aws:lambda:ap-east-1:123456789012:capacity-provider:grabs
	.tools/aws/bin/cfn-lint target/aws/template.json
	.tools/checkov/bin/checkov --config-file tests/aws/checkov.yaml --file target/aws/template.json target/aws/all.json

# template.yaml, deployed to an emulated CloudFormation, against what the code needs: make test-aws ARGS="-k roles"
test-aws:
	@scripts/install-tools.sh && scripts/install-tools.sh aws
	.tools/aws/bin/python -m pytest -q -p no:cacheprovider tests/aws $(ARGS)

# What each function asks of DynamoDB, from a walk through all of them: tests/aws/actions.json, which the roles are held against.
record-actions:
	@scripts/install-tools.sh && scripts/install-tools.sh rie
	cargo build --workspace --bins
	RENEW_ACTIONS=1 cargo test -p tests --test it functions::actions

# The functions as they are deployed: size, and the glibc that they need. One of them: make arm64 ONLY=grab
arm64:
	@scripts/install-tools.sh lambda
	PATH="$(CURDIR)/.tools/lambda/bin:$$PATH" scripts/arm64.sh $(ONLY)

# The functions in SAM's containers, over stores of this machine: each route, the readme's walk, each sample event. It says
# what it needs. Sooner built: SAM_BUILD_MODE=debug make sam-local
sam-local:
	@scripts/install-tools.sh && scripts/install-tools.sh sam && scripts/install-tools.sh lambda && scripts/install-tools.sh aws
	PATH="$(CURDIR)/.tools/lambda/bin:$$PATH" scripts/sam-local.sh

# The functions under cargo-lambda's emulator at http://127.0.0.1:9201, over the stores of a running `make run`; each is
# built when it is called first, and again when its code has changed. docs/DEPLOY.md says how to call them.
watch:
	@scripts/install-tools.sh lambda
	@[ -f .local/stores.env ] || { echo "watch: there are no stores; make run starts them" >&2; exit 1; }
	@set -a; . ./.local/stores.env; AWS_REGION=local AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local; \
	exec .tools/lambda/bin/cargo-lambda lambda watch --invoke-address 127.0.0.1 --invoke-port 9201 $(ARGS)

# The protocol in every state of small instances; or one mistake and what it breaks: make model MUTANT=no-slip-fence
model:
	cargo run -q -p model -- $(if $(MUTANT),--mutant $(MUTANT))

# Recorded runs under more load than can be served: make pressure ARGS="backlog --holds 1000000", or "overload --times 3".
pressure:
	@scripts/install-tools.sh
	cargo build --release -p local -p tests --bins
	target/release/pressure $(ARGS)

# This engine beside every published design, in one run: make bench, or make bench QUICK=1, or only some of it:
# make bench ARGS="--only A,B --scheme ours". The report is in target/bench.
bench:
	@scripts/install-tools.sh && scripts/install-tools.sh rie
	cargo build --release
	cargo build --release -p bench
	target/release/bench $(if $(QUICK),--quick) $(ARGS)

# How many instructions a grab takes, against what was recorded: the same on every machine, however busy it is.
# make instructions RECORD=1 records it. CI counts in the build of its tests, which has bounds of its own: PROFILE=dev.
instructions: PROFILE ?= instructions
instructions:
	@scripts/install-tools.sh && scripts/install-tools.sh valgrind
	@if [ "$$(uname -s)" != Linux ]; then echo "make instructions: skipped, valgrind runs on Linux only"; else \
	cargo build --profile $(PROFILE) $(if $(filter dev,$(PROFILE)),--workspace --bin,-p) instructions && target/$(PROFILE:dev=debug)/instructions $(if $(RECORD),record); fi

# Each function's size as it is deployed, its start and memory.
size: arm64
	@$(MAKE) --no-print-directory bench ARGS="--only functions --deployed target/lambda --out target/size"

# Real kills: processes, Redis and requests fail for so many minutes; then every answer is held against the ledger.
# The report is in target/chaos; several are added up by: target/harness/chaos sum target/chaos/run-*.json
MINUTES ?= 20
chaos: PROFILE ?= harness
# For a part of the workspace Cargo builds the dependencies with that part's features: anew, if the whole has been built.
chaos: CHAOS = $(if $(filter dev,$(PROFILE)),--workspace,-p chaos) --bin chaos --features chaos/crash-points
chaos:
	@scripts/install-tools.sh
	cargo test --profile $(PROFILE) $(CHAOS)
	cargo build --profile $(PROFILE) $(CHAOS)
	target/$(PROFILE:dev=debug)/chaos run --minutes $(MINUTES) $(ARGS)

# Bad input: 1,000 requests an operation, then each parser for so many minutes: make fuzz MINUTES=10
fuzz: fuzz-api
	scripts/fuzz.sh

# Each operation of openapi.yaml with so many generated requests: make fuzz-api CASES=50 SEED=7
fuzz-api:
	scripts/fuzz-api.sh

# Small changes of the code that no test would notice.
mutants-code:
	scripts/mutants.sh domain && scripts/mutants.sh ledger

# What is shipped, as CycloneDX.
sbom:
	scripts/sbom.sh
