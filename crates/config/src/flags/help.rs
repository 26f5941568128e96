//! The output of `--help` and `--version`.

use std::fmt::Write;

use serde_json::Value;

use super::{
    Target,
    table::{FlagSpec, GROUPS},
};
use crate::{KUBERNETES_VERSION, KubeletConfiguration};

/// The name under which the program was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramName {
    /// `kubelet`: other programs parse the output.
    Kubelet,
    /// `podward agent`: people read the output.
    Podward,
}

const INDENT: usize = 6;
const COLUMN: usize = 48;
const WIDTH: usize = 110;

/// The output of `--version`. `build` describes this build of podward.
pub fn version_text(program: ProgramName, build: &str) -> String {
    let kubernetes = format!("Kubernetes {KUBERNETES_VERSION}");
    match program {
        ProgramName::Kubelet => kubernetes,
        ProgramName::Podward => format!("{kubernetes}\n{build}"),
    }
}

/// The output of `--help`.
pub fn help_text(program: ProgramName) -> String {
    let program = match program {
        ProgramName::Kubelet => "kubelet",
        ProgramName::Podward => "podward agent",
    };
    let mut text = format!(
        "Runs the pods of this node. Pods come from the API server, from manifest files or from a URL.\n\n\
         Usage:\n  {program} [flags]\n"
    );
    let defaults = KubeletConfiguration::legacy_defaults().to_json();
    for group in GROUPS {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{}:\n", group.title);
        for flag in group.flags {
            push_flag(&mut text, flag, &defaults);
        }
    }
    text
}

fn push_flag(text: &mut String, flag: &FlagSpec, defaults: &Value) {
    let short = flag.short.map(|short| format!("-{short}, ")).unwrap_or_default();
    let head = format!("{short:>INDENT$}--{} {}", flag.name, flag.kind.placeholder());
    let head = head.trim_end();
    let default = default_text(flag, defaults).map(|default| format!("default {default}"));
    let no_effect = (!flag.has_effect()).then(|| "no effect".to_owned());
    let notes: Vec<String> = default.into_iter().chain(no_effect).collect();
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
    let help = format!("{}{notes}", flag.help);
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

/// The default, unless it is empty, zero or false.
fn default_text(flag: &FlagSpec, defaults: &Value) -> Option<String> {
    let text = match flag.target {
        Target::FlagOnly(default) | Target::Ignored(default) => default.to_owned(),
        Target::Field(path) => {
            match path.split('.').try_fold(defaults, |current, key| current.as_object()?.get(key))? {
                Value::String(text) => text.clone(),
                Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
                other => other.to_string(),
            }
        }
    };
    Some(text).filter(|text| !matches!(text.as_str(), "" | "0" | "false" | "0s"))
}
