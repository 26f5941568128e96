# All project commands; `make` alone lists them.
#
# `make build`, `make unit` and most of `make check` need Rust and a C compiler, and no root; `make run` needs root as well. The
# other targets run as root on Debian 12 with Rust and Go, and install missing packages. Caches are outside the tree: cargo's own, and
# ${PODWARD_CACHE:-~/.cache/podward}.
#
#   ARGS=...          arguments of run (--once), bench (--quick), unit and e2e (test names) and fuzz (target names)
#   FUZZ_SECONDS=20   duration per fuzz target; 0 only replays the seeds

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory --no-builtin-rules
.NOTPARALLEL:

PODWARD_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/podward
FUZZ_SECONDS ?= 20
ARGS ?=

# testkit expects the demo program, test images and agents in ./target, so another target folder would break the tests.
unexport CARGO_TARGET_DIR
CARGO := cargo
# Scenarios and benchmarks run the release build, even if ./target has a newer debug build.
export PODWARD_BIN := $(CURDIR)/target/release/podward
export PODWARD_KUBELET := $(PODWARD_CACHE)/bin/kubelet
export PODWARD_CONTAINERD_2 := $(PODWARD_CACHE)/bin/containerd
export PODWARD_CACHE

# Names of the integration tests. Those of the crates are part of `make unit` and `make unit-root`, except device_admission
# and thousand_pods, which are benchmarks. Those of tests/ are the scenarios.
test_names = $(sort $(notdir $(basename $(wildcard $(1)/*.rs))) $(notdir $(patsubst %/main.rs,%,$(wildcard $(1)/*/main.rs))))
CRATE_TESTS := $(filter-out device_admission thousand_pods,$(call test_names,crates/*/tests))
# The cluster scenarios take longer than all others together: `make test` runs this selection, `make cluster` all of them.
CLUSTER_CHOICE := kubectl_run_starts_a_pod deployment_rolls_out_new_version bootstraps_with_a_token static_pod_has_a_mirror_pod \
	graceful_delete_waits_for_the_container object_changes_update_projected_files projected_token_is_accepted_by_the_cluster \
	reports_changes_made_during_api_server_outage pods_start_after_reboot_without_control_plane recovers_from_wrong_server_certificates
SCENARIOS := $(filter-out cluster_node kubeadm node_api node_streams,$(call test_names,tests/tests))
# Scenarios that start a container runtime, without those that start their own way. `make inside` runs them on podward's runtime;
# `make e2e` runs a selection on the runtime inside.
OWN_RUNTIME_SCENARIOS := pipeline containers probes volumes images objects security events metadata status statistics \
	kill_sweep command_line cgroups devices
INSIDE_CHOICE := sandboxes lifecycle init sidecars probes rotation sub_paths environment confinement identity
# Cargo selects tests by name in all crates: a scenario of the same name would run with the tests of the crates.
$(if $(filter $(SCENARIOS),$(CRATE_TESTS)),$(error tests of crates and scenarios have the same name: $(filter $(SCENARIOS),$(CRATE_TESTS))))
CRATE_TEST_COMMAND = $(CARGO) test --locked --workspace --no-fail-fast --lib --bins $(addprefix --test ,$(CRATE_TESTS))
# Scenarios mostly wait, and each has a private container runtime, so several can run at once.
SCENARIO_THREADS ?= 3
SCRIPTS := .ci/run $(wildcard tools/*.sh tools/vm/*.sh tools/vm/*/*.sh crates/testkit/src/machine/*.sh) \
	crates/runtime/src/network/cni/testdata/plugin.sh $(addprefix packaging/debian/,postinst prerm postrm)
EXAMPLES := $(wildcard examples/*.yaml examples/*/*.yaml)

# Runs a command. With PODWARD_RETRIES a failed command is repeated once and listed as FLAKY: retry(what it runs,command).
define retry
@command=($(2)); "$${command[@]}" || { \
	[ "$${PODWARD_RETRIES:-0}" != 0 ] || exit 1; \
	echo "FLAKY $(1): see above; second attempt" | tee -a "$${PODWARD_FLAKY:-/dev/null}"; \
	"$${command[@]}"; \
}
endef

say = @printf '==> %s\n' "$(1)"

.PHONY: help
help: ## show this list
	@echo "make TARGET (build, unit and check work without root, run needs root, and the others root on Debian 12):"
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

# The demo is built once and run once: neither debug information nor incremental compilation pays off.
.PHONY: run
run: export CARGO_INCREMENTAL = 0
run: export CARGO_PROFILE_DEV_DEBUG = 0
run: toolchain ## demo: runs a pod until Ctrl-C, needs root (ARGS=--once: until the pod answers; ARGS=--containerd)
	$(call say,building podward and the demo (development profile))
	@# One invocation for both programs, so that each dependency is compiled once.
	@$(CARGO) build --locked -p podward -p testkit --bin podward --bin demo-node
	$(call say,running the demo pod of examples/demo/web.yaml)
	@PODWARD_BIN=$(CURDIR)/target/debug/podward exec target/debug/demo-node $(ARGS)

.PHONY: check
check: format lints fuzz-targets layers dependencies unused advisories scripts ## format, lints, layer rules, dependencies, advisories, scripts (-k: report all)

.PHONY: format
format: toolchain
	$(call say,format)
	@$(CARGO) fmt --all --check
	@rustfmt --check --edition 2024 fuzz/fuzz_targets/*.rs

.PHONY: lints
lints: toolchain
	$(call say,lints)
	@$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

# The fuzz targets are a separate workspace.
.PHONY: fuzz-targets
fuzz-targets: toolchain
	$(call say,fuzz targets compile)
	@$(CARGO) check --quiet --locked --manifest-path fuzz/Cargo.toml --target-dir target

.PHONY: layers
layers: toolchain
	$(call say,layer rules)
	@$(CARGO) test --quiet --locked --workspace --test layers

.PHONY: dependencies
dependencies: toolchain
	$(call say,licences and versions of dependencies)
	@tools/checkers.sh cargo-deny
	@$(PODWARD_CACHE)/checkers/bin/cargo-deny --log-level error check --hide-inclusion-graph bans licenses sources

.PHONY: unused
unused: toolchain
	$(call say,unused dependencies)
	@tools/checkers.sh cargo-machete
	@$(PODWARD_CACHE)/checkers/bin/cargo-machete crates tests fuzz

.PHONY: advisories
advisories: toolchain
	$(call say,security advisories)
	@tools/checkers.sh cargo-deny
	@tools/advisories.sh

.PHONY: scripts
scripts:
	$(call say,scripts)
	@tools/checkers.sh shellcheck
	@for script in $(SCRIPTS); do bash -n $$script; done
	@shellcheck --severity=warning --exclude=SC2209 $(SCRIPTS)

.PHONY: test
test: toolchain setup tools ## all tests: unit, unit-root, then the scenarios on real runtimes (e2e) and critest
	@# The link step of the optimised build uses one core for minutes: the tests of the crates use the other.
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	$(MAKE) build >"$$log" 2>&1 & build=$$!; \
	{ $(MAKE) unit && $(MAKE) unit-root; } || { kill "$$build" 2>/dev/null; exit 1; }; \
	wait "$$build" || { cat "$$log"; exit 1; }
	@$(MAKE) e2e
	@$(MAKE) critest ARGS=--short

# Run by root, the tests still get no privileges: a test that needs them must be in the other group.
.PHONY: unit
unit: toolchain ## tests of the crates without root, Go and Debian packages (ARGS=name)
	$(call say,tests of the crates)
	$(call retry,unit,$(CRATE_TEST_COMMAND) --config "target.'cfg(unix)'.runner = ['tools/without-root.sh']" -- $(ARGS))
	@[ -n "$(ARGS)" ] || $(CARGO) test --quiet --locked --workspace --doc

# These tests are marked with #[ignore]; crates/testkit/tests/test_groups.rs checks the reasons.
.PHONY: unit-root
unit-root: toolchain setup tools ## tests of the crates that need root, Debian packages or upstream programs (ARGS=name)
	$(call say,tests of the crates that need root or installed programs)
	$(call retry,unit-root,$(CRATE_TEST_COMMAND) -- --ignored $(ARGS))

.PHONY: e2e
e2e: toolchain setup tools build ## scenarios: podward and the upstream kubelet, SCENARIO_THREADS=3 at once (ARGS=name)
	$(call say,checking the example manifests)
	@$(PODWARD_BIN) check $(EXAMPLES)
	$(call say,running the demo)
	@# Building a test of testkit also builds the programs of testkit, with dependencies that are already compiled.
	@$(CARGO) test --quiet --locked --workspace --no-run --test layers
	@target/debug/demo-node --once
	@target/debug/demo-node --once --containerd
	$(call say,scenarios: $(SCENARIOS))
	@$(CARGO) test --locked --workspace --no-fail-fast $(addprefix --test ,$(SCENARIOS)) -- --test-threads=$(SCENARIO_THREADS) $(ARGS)
	@[ -n "$(ARGS)" ] || PODWARD_RUNTIME=inside $(CARGO) test --locked --workspace --no-fail-fast \
		$(addprefix --test ,$(OWN_RUNTIME_SCENARIOS)) -- --test-threads=$(SCENARIO_THREADS) $(INSIDE_CHOICE)
	@# ARGS selects scenarios of this target only; make cluster has its own.
	@[ -n "$(ARGS)" ] || $(MAKE) cluster ARGS="$(CLUSTER_CHOICE)"

# The suite waits most of the time, and each part of it has its own network.
.PHONY: critest
critest: toolchain setup build ## public conformance suite of CRI on podward runtime (ARGS=--short, --record or a regular expression)
	@tools/build.sh critest crictl
	$(call say,CRI conformance suite)
	$(call retry,critest,$(CARGO) run --quiet --locked -p scenarios --bin critest -- $(ARGS))

.PHONY: inside
inside: toolchain setup tools build ## scenarios on podward's own runtime: inside the agent, and over its socket (ARGS=name)
	$(call say,scenarios on the runtime inside podward)
	@PODWARD_RUNTIME=inside $(CARGO) test --locked --workspace --no-fail-fast $(addprefix --test ,$(OWN_RUNTIME_SCENARIOS)) -- --test-threads=$(SCENARIO_THREADS) $(ARGS)
	$(call say,scenarios on `podward runtime`: podward and the upstream kubelet)
	@PODWARD_RUNTIME=socket $(CARGO) test --locked --workspace --no-fail-fast $(addprefix --test ,takeover $(OWN_RUNTIME_SCENARIOS)) -- --test-threads=$(SCENARIO_THREADS) $(ARGS)

.PHONY: cluster
cluster: toolchain setup tools build ## scenarios with a real control plane, both agents (ARGS=name)
	$(call say,scenarios: cluster_node node_api node_streams)
	@$(CARGO) test --locked --workspace --no-fail-fast --test cluster_node --test node_api --test node_streams -- --test-threads=1 $(ARGS)

# Two machines in namespaces. kubeadm needs a newer etcd than Debian 12 has.
.PHONY: kubeadm
kubeadm: toolchain setup tools build ## scenario: kubeadm init, join, drain and a rolled control plane, both agents (ARGS=podward)
	@tools/build.sh kubeadm etcd
	$(call say,scenario: kubeadm)
	@$(CARGO) test --locked --workspace --test kubeadm -- --test-threads=1 $(ARGS)

# The programs run in the machines as they are: the machines have a newer C library than this one.
.PHONY: vm
vm: toolchain setup tools build ## checks in virtual machines with systemd and cgroup v2 (ARGS=trixie, testing or a check's name)
	$(call say,building the checks)
	@$(CARGO) build --locked --workspace --bin vm_checks --bin compare_metrics --bin image-tar
	@tools/vm/all.sh $(ARGS)

.PHONY: bench
bench: toolchain setup tools build ## benchmarks of podward and the upstream kubelet (ARGS=--quick)
	$(call say,measuring for several minutes; other load on the machine distorts the results)
	@$(CARGO) run --quiet --locked --release -p scenarios --bin bench -- $(ARGS)
	$(call say,a thousand pods on the fake runtime)
	@PODWARD_BINARY=$(PODWARD_BIN) $(CARGO) test --quiet --locked --workspace --test thousand_pods -- --ignored --nocapture --test-threads=1
	$(call say,500 pods on 5000 devices)
	@$(CARGO) test --quiet --locked --release -p podward --test device_admission -- --ignored --nocapture

.PHONY: compare-status
compare-status: toolchain setup tools build ## compare the statuses that both agents report for a corpus of pods (ARGS=name or --recorded)
	$(call say,comparing pod statuses of podward and the upstream kubelet)
	@$(CARGO) run --quiet --locked -p scenarios --bin compare_status -- $(ARGS)

.PHONY: compare-metrics
compare-metrics: toolchain setup tools build ## compare statistics and metrics of both agents for the same pods (ARGS=--recorded)
	$(call say,comparing statistics and metrics of podward and the upstream kubelet)
	@$(CARGO) run --quiet --locked -p scenarios --bin compare_metrics -- $(ARGS)

.PHONY: fuzz
fuzz: toolchain ## run the fuzz targets, FUZZ_SECONDS=20 each (ARGS=target)
	$(call say,running each fuzz target for $(FUZZ_SECONDS) s)
	@tools/fuzz.sh $(FUZZ_SECONDS) $(ARGS)

.PHONY: build
build: toolchain ## build the release program, target/release/podward
	$(call say,building podward (release profile))
	@$(CARGO) build --locked --release -p podward

# PROFILE=dev packages the development build, for tests of the package itself.
PROFILE ?= release
ifeq ($(PROFILE),release)
PACKAGED =
DEB_COMPRESSION := xz
else
PACKAGED := target/debug/podward
DEB_COMPRESSION := gzip
endif

.PHONY: packaged
packaged: toolchain
ifneq ($(PACKAGED),)
	$(call say,building podward (development profile))
	@$(CARGO) build --locked -p podward
endif

.PHONY: dist
dist: packaged ## archive for x86-64 with bill of materials and checksums, in target/packages
	$(call say,making the archive)
	@tools/dist.sh $(PACKAGED)

.PHONY: deb
deb: packaged ## Debian package in target/packages (PROFILE=dev: of the development build)
	$(call say,making the Debian package)
	@tools/deb.sh $(addprefix --binary ,$(PACKAGED)) --compression $(DEB_COMPRESSION)

.PHONY: vm-package
vm-package: $(if $(PACKAGED),packaged,build) ## check the Debian package in a virtual machine with Debian 13 (PROFILE=dev: of the development build)
	$(call say,checking the Debian package in a virtual machine)
	@tools/vm/package.sh -b $(or $(PACKAGED),$(PODWARD_BIN)) trixie

.PHONY: vm-install
vm-install: tools $(if $(PACKAGED),packaged,build) ## follow docs/install.md in a virtual machine with Debian 13 (PROFILE=dev: with the development build)
	$(call say,following docs/install.md in a virtual machine)
	@tools/vm/install.sh -b $(or $(PACKAGED),$(PODWARD_BIN)) trixie

# The package and the guide are among the checks in virtual machines.
.PHONY: vm
vm: vm-package vm-install

.PHONY: reproducible
reproducible: toolchain ## build the release program twice, in different folders, and compare the results
	$(call say,building twice)
	@tools/reproducible.sh

.PHONY: check-arm64
check-arm64: toolchain ## check that podward compiles for arm64 (needs rustup, and gcc-aarch64-linux-gnu of Debian)
	$(call say,checking the build for arm64)
	@tools/check-arm64.sh

.PHONY: setup
setup: ## install the Debian packages that unit-root and the scenarios need
	$(call say,installing Debian packages)
	@tools/setup.sh

.PHONY: tools
tools: ## build the pinned upstream kubelet, control plane and containerd 2 with Go, into the cache
	$(call say,building pinned upstream programs)
	@tools/build.sh kubelet kube-apiserver kube-controller-manager kube-scheduler kubectl \
		containerd containerd-shim-runc-v2 ctr

.PHONY: toolchain
toolchain:
	@command -v cargo >/dev/null || { echo "cargo not found: install Rust from https://rustup.rs" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "no C compiler: apt-get install gcc libc6-dev" >&2; exit 1; }

.PHONY: clean
clean: ## remove build results in the tree, but no caches
	$(call say,removing ./target and fuzz/artifacts)
	@rm -rf target fuzz/artifacts
