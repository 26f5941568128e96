//! The layer rules: who may depend on whom, which stages know each other, and what the pure crates never do.
//!
//! The tables below are the map of ARCHITECTURE.md in a form that a machine can hold against the sources. A
//! failure names the rule and the file; whoever changes a table changes the architecture, and says why there.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

mod layers {
    pub(crate) mod source;
}

use layers::source::{NamedPath, paths};

/// A crate of the workspace and the others of it that its code may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("document", &[]),
    ("config", &["document"]),
    ("manifest", &["document"]),
    ("model", &[]),
    ("decide", &["model"]),
    ("ports", &["model"]),
    ("agent", &["model", "decide", "ports", "manifest"]),
    ("spdy", &[]),
    ("node_api", &["agent", "decide", "model", "ports", "spdy"]),
    ("cri", &["ports", "model"]),
    ("host", &["ports", "model"]),
    ("plugins", &["ports", "model"]),
    ("outbound", &["ports"]),
    ("otlp", &["model", "ports"]),
    ("cluster", &["ports", "model"]),
    (
        "podward",
        &[
            "agent", "cluster", "config", "cri", "decide", "document", "host", "manifest", "model",
            "node_api", "otlp", "outbound", "plugins", "ports",
        ],
    ),
    ("demo", &[]),
    ("testkit", &["cri", "model", "ports", "plugins"]),
    ("scenarios", &["testkit", "cri"]),
];

/// Third-party crates of the crates that do no input and output. Nothing that opens, waits or logs.
const PURE_CRATES_USE: &[(&str, &[&str])] = &[
    (
        "document",
        &["saphyr-parser", "serde", "serde_ignored", "serde_json", "serde_path_to_error", "thiserror"],
    ),
    ("config", &["serde", "serde_json", "thiserror"]),
    ("manifest", &["k8s-openapi", "serde", "serde_json", "thiserror"]),
    ("model", &["jiff", "k8s-openapi", "serde", "serde_json", "thiserror"]),
    ("ports", &["async-trait", "futures", "k8s-openapi", "serde_json", "thiserror"]),
    ("decide", &["base64", "jiff", "k8s-openapi", "regex-syntax", "serde_json", "sha2"]),
];

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
    "supplies_memory",
    "sweeper",
    "node_cgroups",
    "system_cgroups",
    "node",
    "lease",
    "object_hints",
    "container_gc",
    "image_gc",
    "log_rotation",
    "plugin_registry",
    "packet_filter",
    "oom_watcher",
    "node_shutdown",
    "eviction",
];

/// What stages share, and which of the others each of them may use itself.
const SERVICES: &[(&str, &[&str])] = &[
    ("memory", &["test_checkpoints"]),
    ("test_checkpoints", &[]),
    ("agent_facts", &["metrics"]),
    ("allocations", &["test_checkpoints"]),
    ("api_deadline", &[]),
    ("api_pods", &[]),
    ("cluster_objects", &["node_view", "published"]),
    ("cluster_supplies", &["followed", "node_view", "pod_certificates", "tokens"]),
    ("pod_certificates", &["event_log", "metrics", "node_view"]),
    ("followed", &[]),
    ("tokens", &[]),
    ("event_delivery", &["event_log"]),
    ("claims", &["save_retry", "test_checkpoints"]),
    ("csi_allocatable", &["csi_drivers", "csi_registration"]),
    ("csi_drivers", &[]),
    ("csi_registration", &["csi_drivers", "metered_csi", "metrics", "node_view"]),
    ("csi_volumes", &["claims", "csi_drivers", "metrics", "node_view", "tokens"]),
    ("event_log", &[]),
    ("file_report", &[]),
    ("images", &["metrics", "pull_ledger", "tokens"]),
    ("kept_status", &["published"]),
    ("messages", &[]),
    ("metered_cgroups", &["metrics"]),
    ("metered_csi", &["metrics"]),
    ("metered_volumes", &["metrics"]),
    ("metrics", &[]),
    ("node_inputs", &[]),
    ("node_view", &[]),
    ("objects", &["save_retry", "test_checkpoints"]),
    ("observation", &["published"]),
    ("pod_gauges", &["allocations", "api_pods", "metrics", "observation", "published"]),
    ("pod_resources", &["metrics", "published"]),
    ("published", &[]),
    ("pull_ledger", &["metrics"]),
    ("runtime_health", &["metrics"]),
    ("save_retry", &[]),
    ("source_report", &[]),
    ("sweeping", &["published"]),
    ("timeline", &[]),
    ("statistics", &["claims", "csi_drivers", "metrics", "observation", "published"]),
    ("user_namespaces", &[]),
];

/// Stages that do name another one, and why that is borne. Empty is better.
const STAGE_EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// Crates that only compute.
const PURE_CRATES: &[&str] = &["model", "decide", "ports"];

/// What code of a pure crate never names.
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
    "SystemTime::now",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
    "println",
    "eprintln",
];

/// The one place where the real clock enters.
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
fn pure_crates_use_only_what_computes() {
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
fn pure_crates_touch_nothing_outside() {
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
    report("model, decide and ports do no input or output, read no clock, log nothing", &broken);
}

#[test]
fn stages_do_not_import_each_other() {
    let folder = workspace().join("crates/agent/src");
    let known = |name: &str| STAGES.contains(&name) || SERVICES.iter().any(|(service, _)| *service == name);
    let mut broken = Vec::new();
    let mut excused = Vec::new();
    for file in rust_files(&folder) {
        let inside = file.strip_prefix(&folder).unwrap();
        let module = inside.components().next().unwrap().as_os_str().to_str().unwrap();
        let module = module.trim_end_matches(".rs");
        if module == "lib" {
            continue;
        }
        let shown = relative(&file);
        if !known(module) {
            broken.push(format!("{shown}: module {module} is neither in STAGES nor in SERVICES"));
            continue;
        }
        let depth = inside.components().count();
        for path in paths(&fs::read_to_string(&file).unwrap()) {
            let Some(other) = other_module(&path, depth).filter(|other| known(other) && *other != module)
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
fn every_crate_takes_lints_and_versions_from_the_workspace() {
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
fn no_file_is_called_mod() {
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
            })
            .collect(),
    };
    packages.map(member).collect()
}

/// The module of the crate's root that a path in a file goes to, for a file `depth` modules below the root.
fn other_module(path: &NamedPath, depth: usize) -> Option<&str> {
    let ups = path.words.iter().take_while(|word| *word == "super").count();
    let at = match path.words.first()?.as_str() {
        "crate" => 1,
        "super" if ups == depth => ups,
        _ => return None,
    };
    path.words.get(at).map(String::as_str)
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
