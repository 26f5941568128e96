//! Checks that the tests named in `docs/parity` exist.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn parity_rows_name_existing_tests() {
    let root = testkit::images::workspace();
    let mut names = Names::default();
    for folder in ["crates", "tests", "fuzz"] {
        names.collect(&root.join(folder));
    }
    let mut missing = Vec::new();
    let mut rows = 0;
    for page in markdown_files(&root.join("docs/parity")) {
        let text = fs::read_to_string(&page).unwrap();
        let page = page.strip_prefix(&root).unwrap().display().to_string();
        for (index, line) in text.lines().enumerate() {
            let Some(cell) = last_cell(line) else { continue };
            rows += 1;
            let unknown = test_names(cell).filter(|name| !names.has(name));
            missing.extend(unknown.map(|name| format!("{page}:{}: {name}", index + 1)));
        }
    }
    assert!(rows > 300, "only {rows} rows found: have the pages moved?");
    assert!(missing.is_empty(), "tests that do not exist:\n  {}", missing.join("\n  "));
}

/// Everything that a row may name: functions, modules, crates and test targets.
#[derive(Default)]
struct Names(BTreeSet<String>);

impl Names {
    fn collect(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.ends_with("target") {
                self.0.insert(path.file_name().unwrap().to_string_lossy().into_owned());
                self.collect(&path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                self.0.insert(path.file_stem().unwrap().to_string_lossy().into_owned());
                let text = fs::read_to_string(&path).unwrap();
                for word in ["fn ", "mod "] {
                    let after = text.split(word).skip(1);
                    self.0.extend(after.map(|rest| {
                        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                        rest[..end].to_owned()
                    }));
                }
            }
        }
    }

    /// Whether every segment of a path such as `agent::pipeline::probes` exists.
    fn has(&self, name: &str) -> bool {
        name.split("::").all(|segment| self.0.contains(segment))
    }
}

fn markdown_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    files.sort();
    files
}

/// The last column of a table row with three columns.
fn last_cell(line: &str) -> Option<&str> {
    let row = line.strip_prefix("| ")?.strip_suffix('|')?;
    let cells: Vec<&str> = row.split(" | ").collect();
    (cells.len() == 3).then(|| cells[2])
}

/// The code spans of a cell that look like names of Rust items.
fn test_names(cell: &str) -> impl Iterator<Item = &str> {
    let is_name = |text: &&str| {
        !text.is_empty()
            && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:".contains(c))
    };
    cell.split('`').skip(1).step_by(2).filter(is_name)
}
