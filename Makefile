# The only door: `make` lists what can be done. Everything runs as root on Debian 12, with Rust and Go installed, and
# installs what else is missing. Caches live outside the tree: cargo's own, and ${PODWARD_CACHE:-~/.cache/podward}.
#
#   ARGS=...          passed on by run (--once), bench (--quick), e2e (a test name) and fuzz (target names)
#   FUZZ_SECONDS=20   per fuzz target; 0 only replays the seeds

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory --no-builtin-rules
.NOTPARALLEL:

PODWARD_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/podward
FUZZ_SECONDS ?= 20
ARGS ?=

# The demo program, test images and agents are looked for in ./target, so it cannot be elsewhere.
unexport CARGO_TARGET_DIR
CARGO := cargo
# The agent under test is the release build, whatever else lies in ./target.
export PODWARD_BIN := $(CURDIR)/target/release/podward
export PODWARD_KUBELET := $(PODWARD_CACHE)/bin/kubelet
export PODWARD_CONTAINERD_2 := $(PODWARD_CACHE)/bin/containerd
export PODWARD_CACHE

# Integration tests by name: those of the crates, and the scenarios, which need a machine to themselves.
test_names = $(sort $(notdir $(basename $(wildcard $(1)/*.rs))) $(notdir $(patsubst %/main.rs,%,$(wildcard $(1)/*/main.rs))))
CRATE_TESTS := $(call test_names,crates/*/tests)
# Those of a node in a cluster take longer than all others: make test runs a choice of them, make cluster all.
CLUSTER_CHOICE := kubectl_run a_deployment_rolls_over bootstrap_from_a_token a_static_pod_has_a_mirror \
	a_graceful_delete_lets_the_container_finish changes_reach_the_files a_token_that_the_cluster_accepts \
	what_happened_during_an_outage_is_told pods_come_back_without_a_control_plane wrong_certificates_are_survived
SCENARIOS := $(filter-out cluster_node node_api node_streams,$(call test_names,tests/tests))
# Scenarios mostly wait, and each has a runtime of its own: several run side by side.
SCENARIO_THREADS ?= 3
SCRIPTS := .ci/run $(wildcard tools/*.sh)
EXAMPLES := $(wildcard examples/*.yaml examples/*/*.yaml)

say = @printf '==> %s\n' "$(1)"

.PHONY: help
help: ## show this list
	@echo "make TARGET, as root on Debian 12:"
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

.PHONY: run
run: toolchain setup build ## show podward at work: a demo pod on a containerd of its own, until Ctrl-C
	$(call say,the demo; its pod is examples/demo/web.yaml)
	@$(CARGO) build --quiet --locked -p testkit --bin demo-node
	@exec target/debug/demo-node $(ARGS)

.PHONY: check
check: format lints layers dependencies scripts ## format, lints, layer rules, dependencies, scripts (-k: report all)

.PHONY: format
format: toolchain
	$(call say,format)
	@$(CARGO) fmt --all --check
	@rustfmt --check --edition 2024 fuzz/fuzz_targets/*.rs

.PHONY: lints
lints: toolchain
	$(call say,lints)
	@$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

.PHONY: layers
layers: toolchain
	$(call say,layer rules)
	@$(CARGO) test --quiet --locked --workspace --test layers

.PHONY: checkers
checkers: toolchain
	@tools/checkers.sh

.PHONY: dependencies
dependencies: checkers
	$(call say,dependencies)
	@$(PODWARD_CACHE)/checkers/bin/cargo-deny --log-level error check --hide-inclusion-graph bans licenses sources

.PHONY: scripts
scripts: checkers
	$(call say,scripts)
	@for script in $(SCRIPTS); do bash -n $$script; done
	@shellcheck --severity=warning --exclude=SC2209 $(SCRIPTS)

.PHONY: test
test: toolchain setup tools ## all tests: those of the crates, then the scenarios on real runtimes
	@# The last minutes of the optimised build use one core: the tests of the crates take the other.
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	$(MAKE) build >"$$log" 2>&1 & build=$$!; \
	$(MAKE) unit || { kill "$$build" 2>/dev/null; exit 1; }; \
	wait "$$build" || { cat "$$log"; exit 1; }
	@$(MAKE) e2e

.PHONY: unit
unit: toolchain setup tools ## the tests of the crates only
	$(call say,tests of the crates)
	@crates=($(CARGO) test --locked --workspace --no-fail-fast --lib --bins $(addprefix --test ,$(CRATE_TESTS))); \
	"$${crates[@]}" || { \
		[ "$${PODWARD_RETRIES:-0}" != 0 ] || exit 1; \
		echo "FLAKY tests of the crates: see above; second try" | tee -a "$${PODWARD_FLAKY:-/dev/null}"; \
		"$${crates[@]}"; \
	}
	@$(CARGO) test --quiet --locked --workspace --doc

.PHONY: e2e
e2e: toolchain setup tools build ## the scenarios: podward and the upstream kubelet, SCENARIO_THREADS=3 at once (ARGS=name)
	$(call say,the examples are good manifests)
	@$(PODWARD_BIN) check $(EXAMPLES)
	$(call say,the runtime client on a real containerd)
	@PODWARD_CRI_SOCKET=private $(CARGO) test --quiet --locked --workspace --test contract on_a_real_runtime -- --ignored
	$(call say,the demo runs and leaves nothing behind)
	@# A test's build has the programs of its crate built too, with the dependencies that are already there.
	@$(CARGO) test --quiet --locked --workspace --no-run --test layers
	@target/debug/demo-node --once
	$(call say,scenarios: $(SCENARIOS))
	@$(CARGO) test --locked --workspace --no-fail-fast $(addprefix --test ,$(SCENARIOS)) -- --test-threads=$(SCENARIO_THREADS) $(ARGS)
	@# A name means one of the others; make cluster takes names of its own.
	@[ -n "$(ARGS)" ] || $(MAKE) cluster ARGS="$(CLUSTER_CHOICE)"

.PHONY: cluster
cluster: toolchain setup tools build ## the scenarios of a node in a real cluster, both agents (ARGS=name)
	$(call say,scenarios: cluster_node node_api node_streams)
	@$(CARGO) test --locked --workspace --no-fail-fast --test cluster_node --test node_api --test node_streams -- --test-threads=1 $(ARGS)

.PHONY: bench
bench: toolchain setup tools build ## podward and the upstream kubelet side by side (ARGS=--quick)
	$(call say,measuring; this takes minutes and wants a quiet machine)
	@$(CARGO) run --quiet --locked --release -p scenarios --bin bench -- $(ARGS)
	$(call say,a thousand pods on a fake runtime)
	@PODWARD_BINARY=$(PODWARD_BIN) $(CARGO) test --quiet --locked --workspace --test thousand_pods -- --ignored --nocapture --test-threads=1

.PHONY: compare-status
compare-status: toolchain setup tools build ## a corpus of pods on both agents; their /pods must agree (ARGS=name or --recorded)
	$(call say,comparing what podward and the upstream kubelet report)
	@$(CARGO) run --quiet --locked -p scenarios --bin compare_status -- $(ARGS)

.PHONY: compare-metrics
compare-metrics: toolchain setup tools build ## the same pods on both agents; statistics and metrics must agree (ARGS=--recorded)
	$(call say,comparing what podward and the upstream kubelet measure)
	@$(CARGO) run --quiet --locked -p scenarios --bin compare_metrics -- $(ARGS)

.PHONY: fuzz
fuzz: toolchain ## feed the parsers with noise, FUZZ_SECONDS=20 each (ARGS=target)
	$(call say,fuzz targets for $(FUZZ_SECONDS) s each)
	@tools/fuzz.sh $(FUZZ_SECONDS) $(ARGS)

.PHONY: build
build: toolchain ## podward, optimised: target/release/podward
	$(call say,building podward)
	@$(CARGO) build --locked --release -p podward

.PHONY: setup
setup: ## install the Debian packages that the demo and the scenarios need
	$(call say,Debian packages)
	@tools/setup.sh

.PHONY: tools
tools: ## build the pinned upstream kubelet, its control plane and containerd 2 into the cache
	$(call say,pinned tools)
	@tools/build.sh kubelet kube-apiserver kube-controller-manager kube-scheduler kubectl \
		containerd containerd-shim-runc-v2 ctr

.PHONY: toolchain
toolchain:
	@command -v cargo >/dev/null || { echo "cargo not found: install Rust from https://rustup.rs" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "no C compiler: apt-get install gcc libc6-dev" >&2; exit 1; }

.PHONY: clean
clean: ## remove what was built in the tree; caches stay
	$(call say,removing ./target and fuzz/artifacts)
	@rm -rf target fuzz/artifacts
