//! Checks the groups of tests: `make unit` runs everywhere, `make unit-root` runs the ignored tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

const NEEDS_ROOT: &str = "#[ignore = \"needs root\"]";
/// The attributes of tests that `make unit-root` runs.
const UNIT_ROOT: &[&str] =
    &[NEEDS_ROOT, "#[ignore = \"needs Debian packages\"]", "#[ignore = \"needs upstream programs\"]"];
/// Benchmarks, which `make bench` runs.
const BENCHMARKS: &[&str] =
    &["crates/podward/tests/device_admission.rs", "crates/podward/tests/thousand_pods.rs"];

#[test]
fn tests_that_require_root_are_ignored() {
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        for (line, attributes) in functions_that_call("require_root()", &text) {
            let is_test = attributes.iter().any(|attribute| is_test_attribute(attribute));
            if is_test && !attributes.contains(&NEEDS_ROOT) {
                wrong.push(format!("{file}:{line}"));
            }
        }
    }
    assert!(wrong.is_empty(), "tests that call require_root without {NEEDS_ROOT}:\n  {}", wrong.join("\n  "));
}

#[test]
fn ignored_tests_belong_to_a_make_target() {
    let mut wrong = Vec::new();
    for (file, text) in sources().into_iter().filter(|(file, _)| !BENCHMARKS.contains(&file.as_str())) {
        let ignored =
            text.lines().map(str::trim).enumerate().filter(|(_, line)| line.starts_with("#[ignore"));
        let unknown = ignored.filter(|(_, line)| !UNIT_ROOT.contains(line));
        wrong.extend(unknown.map(|(index, line)| format!("{file}:{}: {line}", index + 1)));
    }
    assert!(wrong.is_empty(), "an ignored test needs one of {UNIT_ROOT:?}:\n  {}", wrong.join("\n  "));
}

/// Rust files of the crates with their path below the workspace, except this one.
fn sources() -> Vec<(String, String)> {
    let workspace = testkit::images::workspace();
    let mut files = Vec::new();
    collect_rust_files(&workspace.join("crates"), &mut files);
    files
        .into_iter()
        .filter(|file| !file.ends_with("test_groups.rs"))
        .map(|file| {
            let text = fs::read_to_string(&file).unwrap();
            (file.strip_prefix(&workspace).unwrap().display().to_string(), text)
        })
        .collect()
}

fn collect_rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The functions around each call: their line number and their attributes.
fn functions_that_call<'a>(call: &str, text: &'a str) -> Vec<(usize, Vec<&'a str>)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_function = |line: &&str| line.contains("fn ") && line.contains('(');
    let calls = lines.iter().enumerate().filter(|(_, line)| line.contains(call) && !is_function(line));
    let around = calls.filter_map(|(index, _)| {
        let function = lines[..index].iter().rposition(is_function)?;
        let attributes = lines[..function].iter().rev().take_while(|line| line.starts_with("#["));
        Some((function + 1, attributes.copied().collect()))
    });
    around.collect()
}

fn is_test_attribute(line: &str) -> bool {
    line.starts_with("#[test]") || line.starts_with("#[tokio::test")
}
