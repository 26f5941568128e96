//! `podward get sources`: the state of each manifest file, URL and API server.

use model::local_api::{FileReport, FileState, SourceList, SourceReport, SourceState, paths};
use model::{PodSource, Timestamp};
use ports::clock::{Clock, SystemClock};

use super::{print, print_document, table_with_headings};
use crate::command::arguments::{GetArguments, Output};
use crate::command::client::Client;
use crate::command::table::{Table, age_of};

const HEADINGS: [&str; 6] = ["SOURCE", "PLACE", "STATE", "SINCE", "CONTENT", "PROBLEM"];

pub(super) async fn run(client: &Client, arguments: &GetArguments) -> anyhow::Result<()> {
    if arguments.watch {
        anyhow::bail!("--watch works with pods and events only");
    }
    // The read-only port serves only the files.
    let list = match client {
        Client::LocalSocket(_) => client.get(paths::SOURCES).await?,
        Client::ReadOnlyPort(_) => {
            SourceList { files: client.get(paths::MANIFESTS).await?, sources: Vec::new() }
        }
    };
    if matches!(arguments.format.output, Output::Json | Output::Yaml) {
        return print_document(arguments.format.output, &list);
    }
    let rows = rows(&list, SystemClock.now());
    if rows.is_empty() {
        eprintln!("No sources: set staticPodPath, staticPodURL or --kubeconfig.");
        return Ok(());
    }
    if arguments.format.output == Output::Name {
        return print(&rows.iter().map(|row| format!("{}\n", row.location)).collect::<String>());
    }
    let mut table = table_with_headings(HEADINGS, arguments.no_headers);
    rows.iter().for_each(|row| row.add_to(&mut table));
    print(&table.take_text())
}

struct Row {
    source: &'static str,
    location: String,
    state: &'static str,
    since: String,
    content: String,
    problem: String,
}

impl Row {
    fn from_source(source: &SourceReport, now: Timestamp) -> Self {
        Self {
            source: source.source.as_str(),
            location: source.location.clone(),
            state: source.state.as_str(),
            since: age_of(Some(source.since), now),
            content: match source.pods {
                0 => String::new(),
                1 => "1 pod".to_owned(),
                count => format!("{count} pods"),
            },
            problem: source.problem.clone().unwrap_or_default(),
        }
    }

    fn from_file(file: &FileReport, now: Timestamp) -> Self {
        let join = |one: &[String], other: &[String], separator| [one, other].concat().join(separator);
        Self {
            source: PodSource::File.as_str(),
            location: file.path.display().to_string(),
            state: match file.state {
                FileState::Accepted => "Accepted",
                FileState::Rejected => "Rejected",
                FileState::LastGoodVersion => "LastGoodVersion",
            },
            since: age_of(Some(file.since), now),
            content: join(&file.pods, &file.objects, ","),
            problem: join(&file.problems, &file.warnings, "; "),
        }
    }

    fn add_to(&self, table: &mut Table) {
        let content = if self.content.is_empty() { "<none>" } else { &self.content };
        table.add([self.source, &self.location, self.state, &self.since, content, &self.problem]);
    }
}

/// One row per file and per source. A readable folder with files has no separate row.
fn rows(list: &SourceList, now: Timestamp) -> Vec<Row> {
    let is_covered_by_files = |source: &SourceReport| {
        source.source == PodSource::File && !list.files.is_empty() && source.state == SourceState::Good
    };
    let sources = list.sources.iter().filter(|source| !is_covered_by_files(source));
    let files = list.files.iter().map(|file| Row::from_file(file, now));
    sources.map(|source| Row::from_source(source, now)).chain(files).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prints_row_per_file_and_source() {
        let list: SourceList = serde_json::from_value(json!({
            "sources": [
                {"source": "file", "place": "/m", "state": "Good", "pods": 1, "problem": null, "since": "2026-01-01T00:00:00Z"},
                {"source": "http", "place": "http://h/", "state": "Failing", "pods": 2, "problem": "answered 500",
                 "since": "2026-01-01T00:00:00Z"}],
            "files": [
                {"path": "/m/a.yaml", "state": "accepted", "pods": ["default/a"], "objects": ["configmap default/c"],
                 "problems": [], "warnings": [], "since": "2026-01-01T00:00:10Z"},
                {"path": "/m/b.yaml", "state": "rejected", "pods": [], "objects": [], "problems": ["line 3: x"],
                 "warnings": [], "since": "2026-01-01T00:00:10Z"}]}))
        .unwrap();
        let mut table = table_with_headings(HEADINGS, false);
        rows(&list, Timestamp::from_secs(1_767_225_670)).iter().for_each(|row| row.add_to(&mut table));
        let expected = "\
SOURCE   PLACE       STATE      SINCE   CONTENT                         PROBLEM
http     http://h/   Failing    70s     2 pods                          answered 500
file     /m/a.yaml   Accepted   60s     default/a,configmap default/c
file     /m/b.yaml   Rejected   60s     <none>                          line 3: x
";
        assert_eq!(table.take_text(), expected);
    }
}
