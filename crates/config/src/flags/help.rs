//! `--help` and `--version`.

use std::fmt::Write;

use serde_json::Value;

use super::{
    Target,
    table::{FlagSpec, GROUPS},
};
use crate::{KUBERNETES_VERSION, KubeletConfiguration};

/// Under which name the program was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CalledAs {
    /// `kubelet`: programs parse what we print.
    Kubelet,
    /// `podward agent`: people read it.
    Podward,
}

const INDENT: usize = 6;
const COLUMN: usize = 48;
const WIDTH: usize = 110;

/// The answer to `--version`.
pub fn version_text(called_as: CalledAs) -> String {
    let kubernetes = format!("Kubernetes {KUBERNETES_VERSION}");
    match called_as {
        CalledAs::Kubelet => kubernetes,
        CalledAs::Podward => format!("{kubernetes}\npodward {}", env!("CARGO_PKG_VERSION")),
    }
}

/// The answer to `--help`.
pub fn help_text(called_as: CalledAs) -> String {
    let program = match called_as {
        CalledAs::Kubelet => "kubelet",
        CalledAs::Podward => "podward agent",
    };
    let mut text = format!(
        "Runs the pods of this node: from manifest files, a URL or an API server, through a container runtime.\n\n\
         Usage:\n  {program} [flags]\n"
    );
    let defaults = KubeletConfiguration::legacy_defaults().to_json();
    for group in GROUPS {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{}:\n", group.title);
        for flag in group.flags {
            line(&mut text, flag, &defaults);
        }
    }
    text
}

fn line(text: &mut String, flag: &FlagSpec, defaults: &Value) {
    let short = flag.short.map(|short| format!("-{short}, ")).unwrap_or_default();
    let head = format!("{short:>INDENT$}--{} {}", flag.name, flag.kind.placeholder());
    let head = head.trim_end();
    let default =
        default_text(flag, defaults).map(|default| format!(" (default {default})")).unwrap_or_default();
    let help = format!("{}{default}", flag.help);
    let mut column = head.len();
    text.push_str(head);
    if column + 2 > COLUMN {
        text.push('\n');
        column = 0;
    }
    for (index, word) in help.split(' ').enumerate() {
        if index > 0 && column + 1 + word.len() > WIDTH {
            text.push('\n');
            column = 0;
        }
        if column < COLUMN {
            let _ = write!(text, "{:width$}", "", width = COLUMN - column);
            column = COLUMN;
        } else {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += word.len();
    }
    text.push('\n');
}

/// The default worth showing: not empty, zero or false.
fn default_text(flag: &FlagSpec, defaults: &Value) -> Option<String> {
    let text = match flag.target {
        Target::Own(default) | Target::Nothing(default) => default.to_owned(),
        Target::Field(path) => {
            match path.split('.').try_fold(defaults, |here, key| here.as_object()?.get(key))? {
                Value::String(text) => text.clone(),
                Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
                other => other.to_string(),
            }
        }
    };
    Some(text).filter(|text| !matches!(text.as_str(), "" | "0" | "false" | "0s"))
}
