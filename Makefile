# Each target stands alone on a machine with Rust and make: it installs what it lacks, or says what to install.
.PHONY: demo test fmt lint snap bench bench-against soak durability faults simulate fuzz deploy release release-check deb image console ci

demo: ## Build, start an engine on its embedded default and run an agent on real input
	scripts/demo

test: ## Install what the tests need, then check everything on both databases
	scripts/test

console: ## Build the web console into console/dist, with its checks and unit tests; commit the result
	scripts/console build

fmt: ## Format the source
	cargo fmt --all

lint: ## The lints of the workspace, as errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy -p sortie --no-default-features --locked -- -D warnings
	scripts/cargo-tool machete
	cargo machete
	scripts/words
	scripts/citations
	scripts/simulate --patches

snap: ## Take over the snapshots that changed, for a look at the diff. Only these packages have some
	INSTA_UPDATE=always cargo nextest run --workspace --locked --lib --bins --test openapi \
		-E 'package(sortie) | package(sortie-server) | package(sortie-accounts)'

bench: ## Measure this machine and the engine on both databases; writes bench/RESULTS.md
	scripts/bench

bench-against: ## Compare with an earlier commit in turn: make bench-against REV=v1.0.0 ONLY=tool-free
	scripts/bench-against $(REV) $(if $(ONLY),--only "$(ONLY)")

soak: ## Mixed work for 30 minutes on each database; writes CSV files and pictures into bench/soak
	scripts/soak

durability: ## kill -9 under load, of runs, of people, of licenses and of purchases: 20 rounds on each database, counted; 50 races for credits
	SORTIE_DURABILITY_ROUNDS=20 SORTIE_RACE_ROUNDS=50 scripts/test-postgres cargo nextest run -p sortie --test it --test faults --locked \
		--profile durability --no-capture -E 'test(durability) | test(people_of_) | test(allowance_of_) | test(purchases_of_) | test(a_hundred_creates_)'

deploy: ## Hold what is below deploy/ against its schemas and against the configuration
	scripts/check-deploy

release: ## Everything that is published, in dist/: archives, packages for Debian, pip and npm, the context of the image, SBOM, sums
	scripts/release

release-check: ## Make the release twice, install it in every way, and have each copy answer
	scripts/release-check

deb: ## A Debian package, in dist/
	scripts/release deb

image: ## A container image called sortie; needs docker with buildx
	docker build --file deploy/docker/Dockerfile --tag sortie .

faults: ## Every fault on both databases, ROUNDS times with a seed each: make faults ROUNDS=20
	scripts/faults $(or $(ROUNDS),1)

simulate: ## Schedules of a simulated cluster, 1,000 for each processor and round: make simulate ROUNDS=100, or SEED=17
	SEED=$(SEED) scripts/simulate $(ROUNDS)

fuzz: ## Each fuzz target, or TARGETS, for SECONDS: make fuzz SECONDS=600 TARGETS="html mcp"
	scripts/fuzz $(or $(SECONDS),60) $(TARGETS)

ci: ## What the CI runs
	.ci/run
