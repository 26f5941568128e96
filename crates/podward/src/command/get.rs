//! `podward get` and `podward events`.

mod events;
mod nodes;
mod pods;
mod sources;

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use model::yaml::to_yaml;
use serde::Serialize;
use serde_json::{Value, json};

use super::arguments::{EventArguments, GetArguments, Output};
use super::client::Client;
use super::pod_names::distance;
use super::table::Table;

pub(super) use events::event_table;
pub(super) use pods::pod_summary;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pods,
    Events,
    Sources,
    Node,
}

/// The names of each kind on the command line.
const KIND_NAMES: [(Kind, &[&str]); 4] = [
    (Kind::Pods, &["pods", "pod", "po"]),
    (Kind::Events, &["events", "event", "ev"]),
    (Kind::Sources, &["sources", "source", "manifests", "manifest"]),
    (Kind::Node, &["node", "nodes", "no"]),
];

pub(super) async fn run(mut arguments: GetArguments) -> anyhow::Result<ExitCode> {
    let client = Client::from_flags(&arguments.connection);
    let (kind, name) = match arguments.kind.split_once('/') {
        Some((kind, name)) => (kind.to_owned(), Some(name.to_owned())),
        None => (arguments.kind.clone(), None),
    };
    arguments.names.splice(0..0, name);
    let kind = parse_kind(&kind)?;
    if arguments.selector.is_some() && kind != Kind::Pods {
        bail!("-l works with pods only");
    }
    match kind {
        Kind::Pods => pods::run(&client, &arguments).await,
        Kind::Events => events::run(&client, &events::query_from_get(arguments)?).await,
        Kind::Sources => sources::run(&client, &arguments).await,
        Kind::Node => nodes::run(&client, &arguments).await,
    }?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn run_events(arguments: EventArguments) -> anyhow::Result<ExitCode> {
    let client = Client::from_flags(&arguments.connection);
    events::run(&client, &arguments).await?;
    Ok(ExitCode::SUCCESS)
}

fn parse_kind(text: &str) -> anyhow::Result<Kind> {
    let lower = text.to_lowercase();
    if let Some((kind, _)) = KIND_NAMES.iter().find(|(_, names)| names.contains(&lower.as_str())) {
        return Ok(*kind);
    }
    let names = KIND_NAMES.iter().flat_map(|(_, names)| names.iter());
    let nearest = names.filter_map(|name| Some((distance(name, &lower)?, name))).min();
    let hint = nearest.map(|(_, name)| format!(" Did you mean {name}?")).unwrap_or_default();
    bail!("unknown kind {text:?}; use pods, events, sources or node.{hint}")
}

/// An object for the output formats other than tables.
struct PrintableObject {
    kind: &'static str,
    name: String,
    document: Value,
}

impl PrintableObject {
    /// Adds `apiVersion` and `kind`, which the items of a list do not need to have.
    fn new(kind: &'static str, name: &str, mut document: Value) -> Self {
        if let Some(fields) = document.as_object_mut() {
            fields.insert("apiVersion".to_owned(), json!("v1"));
            fields.insert("kind".to_owned(), json!(kind));
        }
        Self { kind, name: name.to_owned(), document }
    }
}

/// Prints objects as JSON, YAML or names. Returns false if the output format is a table.
fn print_objects(output: Output, objects: &[PrintableObject], is_single: bool) -> anyhow::Result<bool> {
    let document = || match objects {
        [only] if is_single => only.document.clone(),
        objects => {
            let items: Vec<&Value> = objects.iter().map(|object| &object.document).collect();
            json!({"apiVersion": "v1", "kind": "List", "items": items, "metadata": {}})
        }
    };
    match output {
        Output::Table | Output::Wide => return Ok(false),
        Output::Json | Output::Yaml => print_document(output, &document())?,
        Output::Name => objects.iter().try_for_each(print_name)?,
    }
    Ok(true)
}

/// Prints one object of a watch as JSON, YAML or a name.
fn print_change(output: Output, object: &PrintableObject) -> anyhow::Result<()> {
    match output {
        Output::Yaml => print(&format!("---\n{}", to_yaml(&object.document))),
        Output::Json => print_document(output, &object.document),
        Output::Table | Output::Wide | Output::Name => print_name(object),
    }
}

fn print_name(object: &PrintableObject) -> anyhow::Result<()> {
    print(&format!("{}/{}\n", object.kind.to_lowercase(), object.name))
}

/// Prints a document as YAML if that is the output format, otherwise as JSON. The keys are sorted.
pub(super) fn print_document(output: Output, document: &impl Serialize) -> anyhow::Result<()> {
    let document = serde_json::to_value(document)?;
    match output {
        Output::Yaml => print(&to_yaml(&document)),
        Output::Json | Output::Table | Output::Wide | Output::Name => {
            print(&(serde_json::to_string_pretty(&document)? + "\n"))
        }
    }
}

/// Prints and flushes. Ends the program without an error when the reader has closed the pipe.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => Ok(other?),
    }
}

fn table_with_headings<const N: usize>(headings: [&str; N], no_headers: bool) -> Table {
    if no_headers { Table::without_headings() } else { Table::new(headings) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_kubectl_names_of_kinds() {
        for (text, kind) in [
            ("po", Kind::Pods),
            ("Pod", Kind::Pods),
            ("ev", Kind::Events),
            ("manifests", Kind::Sources),
            ("no", Kind::Node),
        ] {
            assert_eq!(parse_kind(text).unwrap(), kind);
        }
        let error = parse_kind("podds").unwrap_err().to_string();
        assert!(error.contains("Did you mean pods?"), "{error}");
        assert!(!parse_kind("deployments").unwrap_err().to_string().contains("Did you mean"));
    }
}
