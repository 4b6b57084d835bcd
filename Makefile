# Short names for the scripts, which say at their tops what they do. `make` alone lists them.

.DEFAULT_GOAL := help
.PHONY: help setup build prebuilt deb wheel demo test fast e2e test-interop test-blkio test-wheel test-vm test-faults test-planted test-mutants test-cuts test-real-cuts test-concurrency test-deb test-fresh torture keep-images whole fuzz bench bench-gate scorecard lint dependencies clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9%-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

setup: ## install what the build, the demo and the tests need and this machine lacks
	@scripts/setup.sh test

build: ## the release binary, target/release/fullstripe
	@scripts/build.sh

prebuilt: ## archives of the program for systems without Rust, x86-64 and 64-bit ARM, in target/prebuilt
	@scripts/prebuilt.sh

deb: ## a Debian package of the program, in target/deb (ARGS='--architecture arm64': for 64-bit ARM)
	@scripts/deb.sh $(ARGS)

wheel: ## the Python package, in target/wheel/dist
	@scripts/wheel.sh

demo: ## build and run the demonstration (options in ARGS)
	@scripts/demo.sh $(ARGS)

test: ## every test, the end-to-end tests included
	@scripts/test.sh

fast: ## the modules' own tests only
	@scripts/test.sh fast

e2e: ## the end-to-end tests only: the built binary with real clients and file systems
	@scripts/test.sh e2e

test-interop: build ## Linux md in a machine of its own and we go on with each other's arrays (ARGS=--long: more cases)
	@PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=scripts python3 -m interop $(ARGS)

test-blkio: build ## another project's vhost-user client, libblkio, uses a volume
	@scripts/blkio.sh

test-wheel: build ## the Python package, installed by pip into fresh environments, says what the program says
	@scripts/wheel.sh test

test-vm: ## a real kernel in a virtual machine uses arrays of NVMe drives as block devices (ARGS=--long: more cases; ARGS=--story: an array's first year; ARGS='--debian 13 --long': on Debian 13; ARGS='--machine arm64 --long': on ARM)
	@scripts/build.sh $(if $(filter arm64%,$(ARGS)),--architecture arm64)
	@scripts/setup.sh $(if $(filter arm64%,$(ARGS)),vm-arm64,$(if $(filter --long --story --debian,$(ARGS)),vm-long,vm))
	@PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=scripts python3 -m vm $(ARGS)

test-deb: build ## the Debian package is installed, upgraded, removed and purged in fresh Debians 12 and 13; needs root (ARGS='--architecture arm64')
	@scripts/deb_test.sh $(ARGS)

test-faults: build ## histories of faults with fresh seeds, COUNT of them (3000), each twice
	@scripts/faults.sh $(COUNT)

torture: build ## rounds of real clients against real faults, ROUNDS of them (100); more options in ARGS, like --short
	@scripts/torture/main.py --rounds $(or $(ROUNDS),100) $(ARGS)

test-cuts: build ## the power goes at every instant of small operations; every state that leaves (ARGS=--quick: fewer)
	@scripts/cuts.sh $(ARGS)

test-real-cuts: ## the real program on drives that lose what was not synced, COUNT power cuts (300); SEED repeats lives
	@scripts/real_cuts.sh $(or $(COUNT),300) $(SEED)

test-planted: ## bugs planted one by one: somebody has to find each (ARGS=--quick asks who did before)
	@scripts/planted.sh $(ARGS)

test-mutants: ## functions changed one by one: some test has to notice (SHARD=3/20; ARGS=--draw: what changed; more in scripts/mutants)
	@scripts/mutants.sh $(if $(SHARD),--shard $(SHARD)) $(ARGS)

test-fresh: ## the README's two commands on fresh Debian systems; hours (ARGS='--release 13 --user sudo --command demo')
	@scripts/fresh.sh $(ARGS)

keep-images: ## crashed arrays of this version, for later ones to start; once for each release
	@FULLSTRIPE_KEEP_IMAGES="$$PWD/crates/fullstripe/tests/releases" cargo test -p fullstripe --test e2e can_be_kept

test-concurrency: ## threads in many orders, Miri, ThreadSanitizer, ARM's parity code (ARGS='shuttle miri': those parts)
	@scripts/concurrency.sh $(ARGS)

whole: ## whole lanes by name, what came of each into docs/lanes.md (ARGS='cuts miri'; without: the names)
	@scripts/whole.py $(ARGS)

fuzz: ## all fuzz targets, SECONDS in sum (60); needs a nightly toolchain and cargo-fuzz
	@scripts/fuzz.sh $(SECONDS)

bench: ## all comparisons in short, into the tables of docs/performance.md (options in ARGS)
	@scripts/bench.sh --short --write docs/performance.md $(ARGS) all

bench-gate: ## fail if a request takes over 3 % more instructions than committed (ARGS=--update commits anew)
	@scripts/bench.sh gate $(ARGS)

bench-%: ## one comparison: xor null ram sequential throttled files rebuild nbd vhost_user front_ends shards completion log devices ublk_modes md md_processor sweep (options in ARGS)
	@scripts/bench.sh $(ARGS) $*

scorecard: build ## every published row beside what the simulator says, into docs/scorecard.md
	@scripts/scorecard.sh

lint: ## formatting, clippy and the repository's own rules
	@scripts/lint.sh

dependencies: ## licences, sources and forbidden or doubled dependencies
	@scripts/dependencies.sh

clean: ## remove what was built
	@scripts/clean.sh
