//! `podward get sources`: what became of each manifest file, URL and API server.

use model::Timestamp;
use ports::clock::{Clock, SystemClock};
use serde_json::{Value, json};

use super::{headed, print};
use crate::command::arguments::{GetArguments, Output};
use crate::command::client::Client;
use crate::command::table::{Table, age_of};
use model::yaml::to_yaml;

pub(super) async fn run(client: &Client, arguments: &GetArguments) -> anyhow::Result<()> {
    if arguments.watch {
        anyhow::bail!("--watch is for pods and events");
    }
    // The read-only port knows the files only.
    let answer = match client {
        Client::Socket(_) => client.json("/podward/sources").await?,
        Client::Port(_) => {
            let files = client.json("/podward/manifests").await?;
            json!({"kind": "SourceList", "sources": [], "files": files})
        }
    };
    match arguments.output {
        Output::Json => return print(&(serde_json::to_string_pretty(&answer)? + "\n")),
        Output::Yaml => return print(&to_yaml(&answer)),
        Output::Table | Output::Wide | Output::Name => {}
    }
    let rows = rows(&answer, SystemClock.now());
    if rows.is_empty() {
        eprintln!("No sources: set staticPodPath, staticPodURL or --kubeconfig.");
        return Ok(());
    }
    if arguments.output == Output::Name {
        return print(&rows.iter().map(|row| format!("{}\n", row.place)).collect::<String>());
    }
    let mut table = headed(["SOURCE", "PLACE", "STATE", "SINCE", "CONTENT", "PROBLEM"], arguments.no_headers);
    rows.iter().for_each(|row| row.add_to(&mut table));
    print(&table.take_text())
}

struct Row {
    source: String,
    place: String,
    state: String,
    since: String,
    content: String,
    problem: String,
}

impl Row {
    fn add_to(&self, table: &mut Table) {
        let or_none = |text: &str| if text.is_empty() { "<none>".to_owned() } else { text.to_owned() };
        table.add([
            &self.source,
            &self.place,
            &self.state,
            &self.since,
            &or_none(&self.content),
            &self.problem,
        ]);
    }
}

/// A row per source that is no folder with files, and per file.
fn rows(answer: &Value, now: Timestamp) -> Vec<Row> {
    let files = answer["files"].as_array().cloned().unwrap_or_default();
    let mut rows = Vec::new();
    for source in answer["sources"].as_array().into_iter().flatten() {
        let is_file = source["source"] == "file";
        if is_file && !files.is_empty() && source["state"] == "Good" {
            continue;
        }
        let count = source["pods"].as_u64().unwrap_or(0);
        rows.push(Row {
            source: text(source, "source"),
            place: text(source, "place"),
            state: text(source, "state"),
            since: since(source, now),
            content: match count {
                0 => String::new(),
                1 => "1 pod".to_owned(),
                count => format!("{count} pods"),
            },
            problem: text(source, "problem"),
        });
    }
    for file in &files {
        let list = |field: &str| {
            let items = file[field].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let problems = [list("problems"), list("warnings")].concat();
        rows.push(Row {
            source: "file".to_owned(),
            place: text(file, "path"),
            state: match text(file, "state").as_str() {
                "accepted" => "Accepted".to_owned(),
                "rejected" => "Rejected".to_owned(),
                "lastGoodVersion" => "LastGoodVersion".to_owned(),
                other => other.to_owned(),
            },
            since: since(file, now),
            content: [list("pods"), list("objects")].concat().join(","),
            problem: problems.join("; "),
        });
    }
    rows
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

fn since(value: &Value, now: Timestamp) -> String {
    let time = serde_json::from_value::<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>(
        value["since"].clone(),
    );
    age_of(time.ok().map(|time| Timestamp::from_api_time(&time)), now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_and_each_source_has_a_row() {
        let answer = json!({
            "sources": [
                {"source": "file", "place": "/m", "state": "Good", "pods": 1, "problem": null, "since": "2026-01-01T00:00:00Z"},
                {"source": "http", "place": "http://h/", "state": "Failing", "pods": 2, "problem": "answered 500",
                 "since": "2026-01-01T00:00:00Z"}],
            "files": [
                {"path": "/m/a.yaml", "state": "accepted", "pods": ["default/a"], "objects": ["configmap default/c"],
                 "problems": [], "warnings": [], "since": "2026-01-01T00:00:10Z"},
                {"path": "/m/b.yaml", "state": "rejected", "pods": [], "objects": [], "problems": ["line 3: x"],
                 "warnings": [], "since": "2026-01-01T00:00:10Z"}]});
        let mut table = headed(["SOURCE", "PLACE", "STATE", "SINCE", "CONTENT", "PROBLEM"], false);
        rows(&answer, Timestamp::from_secs(1_767_225_670)).iter().for_each(|row| row.add_to(&mut table));
        let expected = "\
SOURCE   PLACE       STATE      SINCE   CONTENT                         PROBLEM
http     http://h/   Failing    70s     2 pods                          answered 500
file     /m/a.yaml   Accepted   60s     default/a,configmap default/c
file     /m/b.yaml   Rejected   60s     <none>                          line 3: x
";
        assert_eq!(table.take_text(), expected);
    }
}
