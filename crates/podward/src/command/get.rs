//! `podward get` and `podward events`.

mod events;
mod nodes;
mod pods;
mod sources;

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use super::arguments::{EventArguments, GetArguments, Output};
use super::client::Client;
use super::names::distance;
use super::table::Table;
use model::yaml::to_yaml;

pub(super) use events::event_table;
pub(super) use pods::pod_state;

/// What can be shown, with the words for it.
const KINDS: [(&str, &[&str]); 4] = [
    ("pods", &["pods", "pod", "po"]),
    ("events", &["events", "event", "ev"]),
    ("sources", &["sources", "source", "manifests", "manifest"]),
    ("node", &["node", "nodes", "no"]),
];

/// Runs `podward get`.
pub(super) async fn run(mut arguments: GetArguments) -> anyhow::Result<ExitCode> {
    let client = Client::of(&arguments.connection);
    let (what, name) = match arguments.what.split_once('/') {
        Some((what, name)) => (what.to_owned(), Some(name.to_owned())),
        None => (arguments.what.clone(), None),
    };
    arguments.names.splice(0..0, name);
    let kind = kind(&what)?;
    if arguments.selector.is_some() && kind != "pods" {
        bail!("-l is for pods");
    }
    match kind {
        "pods" => pods::run(&client, &arguments).await,
        "events" => events::run(&client, &events::Question::of_get(&arguments)?).await,
        "sources" => sources::run(&client, &arguments).await,
        _ => nodes::run(&client, &arguments).await,
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `podward events`.
pub(super) async fn run_events(arguments: EventArguments) -> anyhow::Result<ExitCode> {
    let client = Client::of(&arguments.connection);
    events::run(&client, &events::Question::of_events(arguments)).await?;
    Ok(ExitCode::SUCCESS)
}

fn kind(word: &str) -> anyhow::Result<&'static str> {
    let lower = word.to_lowercase();
    if let Some((kind, _)) = KINDS.iter().find(|(_, words)| words.contains(&lower.as_str())) {
        return Ok(kind);
    }
    let words = KINDS.iter().flat_map(|(_, words)| words.iter());
    let near = words.filter_map(|known| Some((distance(known, &lower)?, known))).min();
    let hint = near.map(|(_, known)| format!(" Did you mean {known}?")).unwrap_or_default();
    bail!("cannot get {word:?}; a node has pods, events, sources and itself (node).{hint}")
}

/// Prints a list of objects in a form for programs; false when a table is wanted.
fn print_objects(output: Output, items: &[Value], single: bool) -> anyhow::Result<bool> {
    let whole = || match items {
        [only] if single => only.clone(),
        items => json!({"apiVersion": "v1", "kind": "List", "items": items, "metadata": {}}),
    };
    match output {
        Output::Table | Output::Wide => return Ok(false),
        Output::Json => print(&(serde_json::to_string_pretty(&whole())? + "\n"))?,
        Output::Yaml => print(&to_yaml(&whole()))?,
        Output::Name => {
            for item in items {
                let kind = item["kind"].as_str().unwrap_or_default().to_lowercase();
                print(&format!("{kind}/{}\n", item["metadata"]["name"].as_str().unwrap_or_default()))?;
            }
        }
    }
    Ok(true)
}

/// Prints one object of a stream in a form for programs.
fn print_change(output: Output, object: &Value) -> anyhow::Result<()> {
    match output {
        Output::Yaml => print(&format!("---\n{}", to_yaml(object))),
        Output::Json => print(&(serde_json::to_string_pretty(object)? + "\n")),
        Output::Table | Output::Wide | Output::Name => {
            print_objects(Output::Name, std::slice::from_ref(object), true).map(drop)
        }
    }
}

/// Prints at once; a reader that went away is no error worth words.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => Ok(other?),
    }
}

/// A table with or without its headings.
fn headed<const N: usize>(headings: [&str; N], no_headers: bool) -> Table {
    if no_headers { Table::bare() } else { Table::new(headings) }
}

/// Gives an item of a list what it has on its own.
fn with_kind(mut item: Value, kind: &str) -> Value {
    if let Some(fields) = item.as_object_mut() {
        fields.insert("apiVersion".to_owned(), json!("v1"));
        fields.insert("kind".to_owned(), json!(kind));
    }
    item
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_kubectls_words() {
        for (word, known) in
            [("po", "pods"), ("Pod", "pods"), ("ev", "events"), ("manifests", "sources"), ("no", "node")]
        {
            assert_eq!(kind(word).unwrap(), known);
        }
        let error = kind("podds").unwrap_err().to_string();
        assert!(error.contains("Did you mean pods?"), "{error}");
        assert!(!kind("deployments").unwrap_err().to_string().contains("Did you mean"));
    }
}
