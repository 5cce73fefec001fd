# What the tools are installed to; cargo finds cargo-deny there.
export PATH := $(CURDIR)/.tools/bin:$(PATH)
export SAM_CLI_TELEMETRY := 0

.PHONY: run test check fuzz fuzz-api mutants-code sbom

# The whole system on this machine: make run ARGS="--port 4000 --ephemeral"
run:
	@scripts/install-tools.sh
	cargo run --release -p local -- $(ARGS)

# The tests run the functions' own programs, so these are built first.
test:
	@scripts/install-tools.sh && scripts/install-tools.sh rie
	cargo build --workspace --bins
	cargo test --workspace

check:
	@scripts/install-tools.sh && scripts/install-tools.sh deny && scripts/install-tools.sh sam
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
	cargo deny --log-level error check bans licenses sources
	@if cargo deny --log-level off fetch db >/dev/null 2>&1; then cargo deny --log-level error check advisories; \
	else echo "advisories: not checked, their database can't be reached"; fi
	.tools/sam/bin/sam validate --lint --template template.yaml

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
