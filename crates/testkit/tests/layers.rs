//! The layer rules: which crates may depend on each other, which stages may, and what pure crates must not use.
//!
//! The tables below are the map of ARCHITECTURE.md in a form that can be checked against the sources. A failure names
//! the rule and the file. A change of a table is a change of the architecture and needs a reason there.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

mod layers {
    mod one_place;
    pub(crate) mod source;
}

use layers::source::{NamedPath, paths};

/// A workspace crate and the other workspace crates that it may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("timing", &[]),
    ("values", &[]),
    ("document", &[]),
    ("config", &["document", "values"]),
    ("manifest", &["document", "values"]),
    ("model", &["values"]),
    ("decide", &["model", "timing", "values"]),
    ("ports", &["model"]),
    ("agent", &["model", "decide", "ports", "manifest", "timing", "values"]),
    ("spdy", &[]),
    ("grpc_socket", &[]),
    ("node_api", &["agent", "decide", "model", "ports", "spdy", "timing"]),
    ("cri", &["ports", "model", "timing"]),
    ("host", &["ports", "model", "timing", "values"]),
    ("plugins", &["grpc_socket", "ports", "model", "timing", "values"]),
    ("outbound", &["ports", "timing", "values"]),
    ("runtime", &["cri", "document", "spdy", "timing", "values"]),
    ("otlp", &["model", "ports"]),
    ("cluster", &["ports", "model", "timing", "values"]),
    (
        "podward",
        &[
            "agent",
            "cluster",
            "config",
            "cri",
            "decide",
            "document",
            "grpc_socket",
            "host",
            "manifest",
            "model",
            "node_api",
            "otlp",
            "outbound",
            "plugins",
            "ports",
            "runtime",
            "timing",
            "values",
        ],
    ),
    ("demo", &[]),
    ("testkit", &["cri", "model", "ports", "plugins"]),
    ("scenarios", &["testkit", "cri", "values"]),
    ("vm_checks", &[]),
];

/// Third-party crates that pure crates may use: nothing that does I/O, waits or logs.
const PURE_CRATES_USE: &[(&str, &[&str])] = &[
    (
        "document",
        &["saphyr-parser", "serde", "serde_ignored", "serde_json", "serde_path_to_error", "thiserror"],
    ),
    ("values", &["base64", "percent-encoding", "serde", "thiserror"]),
    ("config", &["serde", "serde_json", "smart-default", "strsim", "thiserror"]),
    ("manifest", &["k8s-openapi", "serde", "serde_json", "thiserror"]),
    ("model", &["jiff", "k8s-openapi", "serde", "serde_json", "thiserror"]),
    ("ports", &["async-trait", "futures", "k8s-openapi", "serde_json", "thiserror"]),
    (
        "decide",
        &["base64", "jiff", "k8s-openapi", "regex-syntax", "serde", "serde_json", "sha2", "thiserror"],
    ),
];

/// Features of our crates that add waiting or randomness, which pure crates must not enable.
const IMPURE_FEATURES: &[(&str, &str)] = &[("timing", "tokio")];

/// Folders of the agent that only group modules.
const PLAIN_GROUPS: &[&str] = &["pipeline", "cluster", "dynamic_resources", "volumes", "upkeep"];

/// Folders of the agent whose own file is also a stage or service.
const OWN_GROUPS: &[&str] = &["node", "images", "metrics"];

/// The stages of the agent: they talk through channels and published tables, and never name each other.
const STAGES: &[&str] = &[
    "sources",
    "desired",
    "sync_loop",
    "pod_workers",
    "pod_runtime",
    "pleg",
    "probes",
    "status",
    "status_delivery",
    "mirror_pods",
    "content_cache",
    "sweeper",
    "node_cgroups",
    "cpu_reconciler",
    "device_plugins",
    "system_cgroups",
    "node",
    "lease",
    "object_hints",
    "container_gc",
    "image_gc",
    "log_rotation",
    "plugin_registry",
    "health_streams",
    "resource_slices",
    "unprepare_vanished",
    "packet_filter",
    "oom_watcher",
    "node_shutdown",
    "eviction",
];

/// Services, which stages share, and the other services that each of them may use.
const SERVICES: &[(&str, &[&str])] = &[
    ("offline_cache", &["state_format", "test_checkpoints"]),
    ("test_checkpoints", &[]),
    ("agent_metrics", &["metrics"]),
    ("allocations", &["exclusive_cpus", "managed_resources", "test_checkpoints"]),
    ("exclusive_cpus", &["metrics", "resource_state_file", "test_checkpoints"]),
    ("api_timeout", &[]),
    ("api_pods", &[]),
    ("cluster_objects", &["node_view", "tables"]),
    ("cluster_content", &["watched_set", "node_view", "pod_certificates", "tokens"]),
    ("pod_certificates", &["event_log", "metrics", "node_view"]),
    ("watched_set", &[]),
    ("tokens", &[]),
    ("event_delivery", &["event_log"]),
    ("claims", &["api_timeout", "save_retry", "state_format", "test_checkpoints"]),
    ("csi_allocatable", &["csi_drivers", "csi_registration"]),
    ("csi_drivers", &["watched_set"]),
    ("csi_registration", &["api_timeout", "csi_drivers", "metered_csi", "metrics", "node_view"]),
    ("csi_volumes", &["claims", "csi_drivers", "metrics", "node_view", "tokens"]),
    ("dra_drivers", &["metrics"]),
    ("resource_claims", &["dra_drivers", "metrics", "test_checkpoints"]),
    ("device_health", &["resource_claims", "resource_state_file", "test_checkpoints"]),
    ("event_log", &[]),
    ("file_report", &[]),
    ("images", &["metrics", "pull_ledger", "tokens"]),
    ("cached_status", &["tables"]),
    (
        "managed_resources",
        &["exclusive_cpus", "metrics", "pinned_memory", "plugin_devices", "test_checkpoints"],
    ),
    ("messages", &[]),
    ("metered_cgroups", &["metrics"]),
    ("metered_csi", &["metrics"]),
    ("metered_volumes", &["metrics"]),
    ("metrics", &[]),
    ("node_reports", &["plugin_devices"]),
    ("node_view", &[]),
    ("objects", &["save_retry", "state_format", "test_checkpoints"]),
    ("observation", &["tables"]),
    ("pod_gauges", &["allocations", "api_pods", "metrics", "observation", "tables"]),
    ("pinned_memory", &["metrics", "resource_state_file", "test_checkpoints"]),
    ("plugin_devices", &["metrics", "resource_state_file", "test_checkpoints"]),
    (
        "pod_resources",
        &["exclusive_cpus", "metrics", "pinned_memory", "plugin_devices", "resource_claims", "tables"],
    ),
    ("requeues", &[]),
    ("resource_state_file", &[]),
    ("tables", &[]),
    ("pull_ledger", &["metrics"]),
    ("runtime_health", &["metrics"]),
    ("save_retry", &[]),
    ("source_report", &[]),
    ("state_format", &["test_checkpoints"]),
    ("sweep_claims", &["tables"]),
    ("timeline", &[]),
    ("statistics", &["claims", "csi_drivers", "metrics", "observation", "tables"]),
    ("user_namespaces", &[]),
];

/// Stages that may use another one, with the reason. Ideally empty.
const STAGE_EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// Crates that only compute.
const PURE_CRATES: &[&str] = &["model", "decide", "ports", "values"];

/// Names that a pure crate must not use.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::env",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
    "std::process",
    "std::thread",
    "std::os",
    "std::net::TcpListener",
    "std::net::TcpStream",
    "std::net::UdpSocket",
    "std::net::ToSocketAddrs",
    "tokio",
    "tracing",
    "timing::random",
    "timing::sleep_until",
    "SystemTime::now",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
    "println",
    "eprintln",
];

/// The only use of the real clock.
const IMPURE_EXCEPTIONS: &[(&str, &str)] = &[("crates/ports/src/clock.rs", "SystemTime::now")];

#[test]
fn crates_depend_upwards_only() {
    let members = members();
    let allowed: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    let mut broken = Vec::new();
    for member in &members {
        let Some(allowed) = allowed.get(member.name.as_str()) else {
            broken.push(format!("{}: crate {} is not in MAY_USE", member.manifest, member.name));
            continue;
        };
        for dependency in &member.dependencies {
            if !members.iter().any(|other| other.name == dependency.name) {
                continue;
            }
            let test_only = dependency.kind == "dev" && dependency.name == "testkit";
            if !test_only && !allowed.contains(&dependency.name.as_str()) {
                broken.push(format!(
                    "{}: {} may not depend on {} ({} dependency); it may use {allowed:?}",
                    member.manifest, member.name, dependency.name, dependency.kind
                ));
            }
        }
    }
    let gone = MAY_USE.iter().filter(|(name, _)| !members.iter().any(|member| member.name == *name));
    broken.extend(gone.map(|(name, _)| format!("MAY_USE names {name}, which is no crate of the workspace")));
    report("dependencies point up the map only", &broken);
}

#[test]
fn pure_crates_use_no_io_dependencies() {
    let members = members();
    let mut broken = Vec::new();
    for (name, allowed) in PURE_CRATES_USE {
        let member = members.iter().find(|member| member.name == *name);
        let outside = member.into_iter().flat_map(|member| &member.dependencies).filter(|dependency| {
            dependency.kind == "normal"
                && !members.iter().any(|other| other.name == dependency.name)
                && !allowed.contains(&dependency.name.as_str())
        });
        broken.extend(outside.map(|dependency| {
            format!("crates/{name}/Cargo.toml: {} is not in the list of what {name} uses", dependency.name)
        }));
    }
    report("the pure crates use only crates that compute", &broken);
}

#[test]
fn pure_crates_enable_no_impure_feature() {
    let mut broken = Vec::new();
    for member in members().iter().filter(|member| PURE_CRATES.contains(&member.name.as_str())) {
        for (name, feature) in IMPURE_FEATURES {
            let mut uses = member.dependencies.iter().filter(|dependency| dependency.name == *name);
            if uses.any(|dependency| dependency.features.iter().any(|own| own == feature)) {
                broken.push(format!("{}: feature {feature} of {name}", member.manifest));
            }
        }
    }
    report("the pure crates use only the computing parts of other crates", &broken);
}

#[test]
fn pure_crates_do_no_io() {
    let mut broken = Vec::new();
    for name in PURE_CRATES {
        for file in rust_files(&workspace().join(format!("crates/{name}/src"))) {
            let shown = relative(&file);
            for path in paths(&fs::read_to_string(&file).unwrap()) {
                let word = IMPURE.iter().find(|word| path.goes_through(word));
                let excepted = |word: &str| IMPURE_EXCEPTIONS.contains(&(shown.as_str(), word));
                if let Some(word) = word.filter(|word| !excepted(word)) {
                    broken.push(format!(
                        "{shown}:{}: {} (no {word} in {name})",
                        path.line,
                        path.words.join("::")
                    ));
                }
            }
        }
    }
    report("model, decide, ports and values do no input or output, read no clock, log nothing", &broken);
}

#[test]
fn stages_do_not_import_each_other() {
    let folder = workspace().join("crates/agent/src");
    let known = |name: &str| STAGES.contains(&name) || SERVICES.iter().any(|(service, _)| *service == name);
    let mut broken = Vec::new();
    let mut excused = Vec::new();
    for file in rust_files(&folder) {
        let inside = file.strip_prefix(&folder).unwrap();
        let names: Vec<&str> = inside
            .components()
            .map(|part| part.as_os_str().to_str().unwrap().trim_end_matches(".rs"))
            .collect();
        let module = module_at(&names);
        if module == "lib" || PLAIN_GROUPS.contains(&module) {
            continue;
        }
        let shown = relative(&file);
        if !known(module) {
            broken.push(format!("{shown}: module {module} is neither in STAGES nor in SERVICES"));
            continue;
        }
        for path in paths(&fs::read_to_string(&file).unwrap()) {
            let Some(other) = other_module(&path, &names).filter(|other| known(other) && *other != module)
            else {
                continue;
            };
            let target = path.words.join("::");
            let exception = STAGE_EXCEPTIONS
                .iter()
                .position(|(stage, thing, _)| *stage == module && target == format!("crate::{thing}"));
            if let Some(exception) = exception {
                excused.push(exception);
            } else if !may_import(module, other) {
                broken.push(format!("{shown}:{}: {module} imports {target}", path.line));
            }
        }
    }
    let stale = STAGE_EXCEPTIONS.iter().enumerate().filter(|(index, _)| !excused.contains(index));
    broken.extend(
        stale.map(|(_, (stage, thing, _))| format!("exception {stage} -> {thing} is not needed any more")),
    );
    report("stages of crates/agent import services, never each other", &broken);
}

#[test]
fn crates_inherit_lints_and_versions_from_workspace() {
    let mut broken = Vec::new();
    for member in members() {
        let text = fs::read_to_string(workspace().join(&member.manifest)).unwrap();
        let mut section = "";
        let mut lints = false;
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.starts_with('[') {
                section = line;
            } else if section == "[lints]" {
                lints |= line == "workspace = true";
            } else if section.contains("dependencies")
                && line.contains('=')
                && !line.contains("workspace = true")
            {
                broken.push(format!(
                    "{}:{}: version not from the workspace: {line}",
                    member.manifest,
                    index + 1
                ));
            }
        }
        if !lints {
            broken.push(format!("{}: [lints] workspace = true is missing", member.manifest));
        }
    }
    report("lints and versions are declared once, in the workspace", &broken);
}

#[test]
fn no_file_is_named_mod_rs() {
    let folders = ["crates", "tests", "fuzz"].map(|name| workspace().join(name));
    let files = folders.iter().flat_map(|folder| rust_files(folder));
    let named: Vec<String> =
        files.filter(|file| file.ends_with("mod.rs")).map(|file| relative(&file)).collect();
    report("a module is foo.rs beside foo/, never mod.rs", &named);
}

struct Member {
    name: String,
    manifest: String,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    kind: String,
    features: Vec<String>,
}

fn members() -> Vec<Member> {
    let output = Command::new(env!("CARGO"))
        .current_dir(workspace())
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let list = |value: &Value, field: &str| value.get(field).and_then(Value::as_array).cloned().unwrap();
    let packages = list(&metadata, "packages").into_iter();
    let member = |package: Value| Member {
        name: text(&package, "name").unwrap(),
        manifest: relative(Path::new(&text(&package, "manifest_path").unwrap())),
        dependencies: list(&package, "dependencies")
            .iter()
            .map(|dependency| Dependency {
                name: text(dependency, "name").unwrap(),
                kind: text(dependency, "kind").unwrap_or_else(|| "normal".to_owned()),
                features: list(dependency, "features")
                    .iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect(),
            })
            .collect(),
    };
    packages.map(member).collect()
}

/// The stage or service of a module path: its first name, or its second one below a group.
fn module_at<'a>(names: &[&'a str]) -> &'a str {
    let listed = |name: &str| STAGES.contains(&name) || SERVICES.iter().any(|(service, _)| *service == name);
    let first = names.first().copied().unwrap_or("lib");
    let grouped = PLAIN_GROUPS.contains(&first) || OWN_GROUPS.contains(&first);
    match names.get(1).copied() {
        Some(second) if grouped && (PLAIN_GROUPS.contains(&first) || listed(second)) => second,
        _ => first,
    }
}

/// The stage or service that a path in a file refers to. `names` is the module path of the file.
fn other_module<'a>(path: &'a NamedPath, names: &[&'a str]) -> Option<&'a str> {
    let ups = path.words.iter().take_while(|word| *word == "super").count();
    let mut words = path.words.iter().map(String::as_str);
    match path.words.first()?.as_str() {
        "crate" => Some(module_at(&words.skip(1).collect::<Vec<_>>())),
        // In an inline test module, one `super` less leads out of the file: only names of stages and services count.
        "super" if ups <= names.len() => words.nth(ups),
        _ => None,
    }
}

fn may_import(module: &str, other: &str) -> bool {
    let service = SERVICES.iter().find(|(name, _)| *name == module);
    match service {
        Some((_, allowed)) => allowed.contains(&other),
        None => SERVICES.iter().any(|(name, _)| *name == other),
    }
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn workspace() -> PathBuf {
    testkit::images::workspace()
}

fn relative(path: &Path) -> String {
    path.strip_prefix(workspace()).unwrap_or(path).display().to_string()
}

fn report(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "rule broken: {rule}\n  {}", broken.join("\n  "));
}
