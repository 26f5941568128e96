//! Generates `docs/reference/metrics.md` from the metric families in the sources, and checks that it is current.
//!
//! A family is a string literal with its name, directly followed by a literal with its help text. Its type is the
//! nearest word "counter", "gauge" or "histogram" in the code around it, or the declared type of its field.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Pages of the node API with the sources of their families. A family belongs to the first page that matches its file.
const PAGES: &[(&str, &str, &[&str])] = &[
    (
        "/metrics/cadvisor",
        "Usage of the machine, pods and containers.",
        &["crates/decide/src/statistics/cadvisor"],
    ),
    (
        "/metrics/resource",
        "The figures that metrics-server reads.",
        &["crates/decide/src/statistics/resource"],
    ),
    ("/metrics/probes", "Results of probes.", &["crates/agent/src/metrics/probes"]),
    ("/metrics/slis", "Results of the agent's health checks.", &["crates/node_api/src/health_check_metrics"]),
    ("/metrics", "The agent itself.", &["crates/agent/src", "crates/decide/src", "crates/node_api/src"]),
];

const INTRODUCTION: &str = "# Metrics

Every metric family of the node API, by page. A family without series is left out of a page. Names, types and labels are those of
the upstream kubelet where it has the family; [parity](../parity/statistics.md) lists the differences. The agent also answers with
OpenMetrics if the client accepts it.

Generated from the sources: `PODWARD_BLESS=1 cargo test -p testkit --test metrics_reference`.
";

#[test]
fn metrics_reference_matches_the_sources() {
    let root = testkit::images::workspace();
    let path = root.join("docs/reference/metrics.md");
    let expected = reference(&root);
    if env::var_os("PODWARD_BLESS").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let difference = expected.lines().zip(found.lines()).find(|(expected, found)| expected != found);
    assert!(
        found == expected,
        "docs/reference/metrics.md is missing or stale (first different line: {difference:?}). \
         Regenerate it with: PODWARD_BLESS=1 cargo test -p testkit --test metrics_reference"
    );
}

#[test]
fn finds_families_with_type_and_help() {
    let text = r#"
        metrics_group! { Group {
            count: Family<Counter, 1> = Family::new(["signal"]),
                "kubelet_evictions", "Evicted pods";
            age: Histogram = Histogram::new(BOUNDS), "kubelet_age_seconds", "Age of \"it\"";
        } }
        page.gauge("kubelet_running_pods", "Running pods", 1.0);
        let not_a_family = ("some_name", value);
    "#;
    let found: Vec<_> =
        families(text).into_iter().map(|family| (family.name, family.kind, family.help)).collect();
    assert_eq!(
        found,
        [
            ("kubelet_evictions", "counter", "Evicted pods".to_owned()),
            ("kubelet_age_seconds", "histogram", "Age of \"it\"".to_owned()),
            ("kubelet_running_pods", "gauge", "Running pods".to_owned()),
        ]
    );
}

struct MetricFamily<'a> {
    name: &'a str,
    kind: &'static str,
    help: String,
}

fn reference(root: &Path) -> String {
    let mut pages: BTreeMap<usize, BTreeMap<String, String>> = BTreeMap::new();
    for file in
        PAGES.iter().flat_map(|(_, _, sources)| *sources).flat_map(|source| rust_files(&root.join(source)))
    {
        let relative = file.strip_prefix(root).unwrap().to_str().unwrap();
        let page = PAGES
            .iter()
            .position(|(_, _, sources)| sources.iter().any(|source| relative.starts_with(source)));
        let text = fs::read_to_string(&file).unwrap();
        let production = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        let found = families(production);
        for (call, _) in production.match_indices("page.") {
            let name = production[call..].split('"').nth(1).filter(|name| is_family_name(name));
            let is_direct = production[call..].split('"').next().unwrap().ends_with('(');
            let is_found = |name| found.iter().any(|family| family.name == name);
            let hidden = name.filter(|name| is_direct && !is_found(*name));
            assert!(hidden.is_none(), "{relative}: the help text of {hidden:?} must follow its name");
        }
        for family in found {
            let row =
                format!("| `{}` | {} | {} |", family.name, family.kind, family.help.replace('|', "\\|"));
            pages.entry(page.unwrap()).or_default().insert(family.name.to_owned(), row);
        }
    }
    let mut text = INTRODUCTION.to_owned();
    for (index, (page, about, _)) in PAGES.iter().enumerate().rev() {
        let rows = &pages[&index];
        let rows: Vec<&str> = rows.values().map(String::as_str).collect();
        write!(
            text,
            "\n## `{page}`\n\n{about}\n\n| family | type | help |\n|---|---|---|\n{}\n",
            rows.join("\n")
        )
        .unwrap();
    }
    text
}

/// The files of a folder and the file of the same name, without those that only contain tests.
fn rust_files(source: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        [source.with_extension("rs")].into_iter().filter(|file| file.is_file()).collect();
    for entry in fs::read_dir(source).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().into_string().unwrap();
        if path.is_dir() && name != "tests" {
            files.extend(rust_files(&path));
        } else if name.ends_with(".rs") && !name.contains("test") {
            files.push(path);
        }
    }
    files
}

fn families(text: &str) -> Vec<MetricFamily<'_>> {
    let mut found = Vec::new();
    for (start, _) in text.match_indices('"') {
        let Some((name, rest)) = text[start + 1..].split_once('"') else { break };
        let between = rest.split('"').next().unwrap();
        let separator = between.trim_start_matches(',').trim();
        let help = rest[between.len()..].strip_prefix('"').and_then(literal);
        if let Some(help) = help
            && is_family_name(name)
            && (separator.is_empty() && between.starts_with(',') || separator == "help:")
            && help.starts_with(|c: char| c.is_ascii_uppercase() || c == '[' || c.is_ascii_digit())
        {
            found.push(MetricFamily { name, kind: kind_at(text, start), help });
        }
    }
    found
}

fn is_family_name(name: &str) -> bool {
    name.contains('_')
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// The content of a string literal whose opening quote was removed.
fn literal(text: &str) -> Option<String> {
    let mut content = String::new();
    let mut characters = text.chars();
    loop {
        match characters.next()? {
            '"' => return Some(content),
            '\\' => match characters.next()? {
                '\n' => characters = characters.as_str().trim_start().chars(),
                escaped => content.push(escaped),
            },
            character => content.push(character),
        }
    }
}

/// The type that the statement around a family names: before the name, else after it.
fn kind_at(text: &str, at: usize) -> &'static str {
    let statement = text[..at].rfind(';').map_or(0, |end| end + 1);
    let before = text[statement..at].to_lowercase();
    let after = text[at..].to_lowercase();
    let kinds = ["counter", "gauge", "histogram"];
    let table_row = after.find('|').map_or("", |end| &after[..end]);
    let in_row = kinds.into_iter().find(|kind| table_row.contains(&format!(" {kind},")));
    let nearest_before = || kinds.into_iter().filter_map(|kind| Some((before.rfind(kind)?, kind))).max();
    let nearest_after = || kinds.into_iter().filter_map(|kind| Some((after.find(kind)?, kind))).min();
    in_row
        .or_else(|| Some(nearest_before()?.1))
        .or_else(|| kind_of_field(text, &text[at..]))
        .or_else(|| Some(nearest_after()?.1))
        .unwrap_or("gauge")
}

/// The declared type of the field that is passed after name and help: `&self.client.errors`.
fn kind_of_field(text: &str, call: &str) -> Option<&'static str> {
    let argument = call.split(';').next()?.split("&self.").nth(1)?;
    let path = argument.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '.').next()?;
    let declaration = format!("    {}: ", path.rsplit('.').next()?);
    let kind = text.split(&declaration).nth(1)?;
    ["Counter", "Gauge", "Histogram"]
        .into_iter()
        .zip(["counter", "gauge", "histogram"])
        .find_map(|(name, word)| kind.starts_with(name).then_some(word))
}
