//! The reference of all flags as Markdown, for `docs/reference/flags.md`.

use std::fmt::Write;

use serde_json::Value;

use super::{
    FlagKind, Status, Target,
    table::{self, FlagSpec, GROUPS},
};
use crate::{KUBERNETES_VERSION, KubeletConfiguration};

/// Renders the flag table as a Markdown document.
pub fn flag_reference() -> String {
    let defaults = KubeletConfiguration::legacy_defaults().to_json();
    let mut text = introduction();
    for group in GROUPS {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n## {}\n\n\
             | Flag | Type | Default | Configuration field | Deprecated | Effect | Description |\n\
             |---|---|---|---|---|---|---|\n",
            group.title
        );
        for flag in group.flags {
            let _ = writeln!(text, "{}", row(flag, &defaults));
        }
    }
    text.push_str(&types());
    text
}

fn introduction() -> String {
    let mut text = format!(
        "# Flags\n\n\
         <!-- Generated from the flag table in crates/config/src/flags/table. Do not edit. Regenerate with:\n     \
         PODWARD_BLESS=1 cargo test -p config flag_reference -->\n\n\
         All flags of `podward agent`: every flag of the upstream kubelet {KUBERNETES_VERSION}, and Podward's own, \
         whose names start with `--podward-`.\n\n\
         - **Default** is the value without a configuration file (`--config`).\n\
         - **Configuration field** is the field of `KubeletConfiguration` that the flag sets. The flag takes precedence \
         over the file.\n\
         - **Deprecated** flags still work. If a flag has a configuration field, set the field in the configuration file \
         instead.\n\
         - **Effect** is `no` for flags that are accepted for compatibility, but change nothing.\n\n\
         Some fields have a different default if a configuration file is given:\n\n\
         | Flag | Default without file | Default with file |\n|---|---|---|\n"
    );
    let legacy = KubeletConfiguration::legacy_defaults().to_json();
    let file = KubeletConfiguration::file_defaults().to_json();
    for flag in table::all() {
        let (without, with) = (default_value(flag, &legacy), default_value(flag, &file));
        if without != with {
            let _ = writeln!(text, "| `--{}` | {} | {} |", flag.name, code(&without), code(&with));
        }
    }
    text
}

fn row(flag: &FlagSpec, defaults: &Value) -> String {
    let short = flag.short.map(|short| format!("`-{short}`, ")).unwrap_or_default();
    let default = code(&default_value(flag, defaults));
    let field = match flag.target {
        Target::Field(path) => code(path),
        Target::FlagOnly(_) | Target::Ignored(_) => String::new(),
    };
    let deprecated = match flag.status {
        Status::Current | Status::NoEffect(_) => "no".to_owned(),
        Status::PreferFile => "yes".to_owned(),
        Status::Deprecated(notice) => format!("yes: {notice}"),
    };
    let effect = match (flag.has_effect(), flag.status) {
        (true, _) => "yes".to_owned(),
        (false, Status::NoEffect(reason)) => format!("no: {reason}"),
        (false, Status::Current | Status::PreferFile | Status::Deprecated(_)) => "no".to_owned(),
    };
    let (kind, _) = kind_and_syntax(flag.kind);
    let description = escape(flag.help);
    format!(
        "| {short}`--{}` | {kind} | {default} | {field} | {deprecated} | {effect} | {description} |",
        flag.name
    )
}

fn types() -> String {
    let mut kinds: Vec<_> = table::all().map(|flag| kind_and_syntax(flag.kind)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut text = "\n## Types\n\n| Type | Syntax |\n|---|---|\n".to_owned();
    for (kind, syntax) in kinds {
        let _ = writeln!(text, "| {kind} | {syntax} |");
    }
    text
}

fn kind_and_syntax(kind: FlagKind) -> (&'static str, &'static str) {
    match kind {
        FlagKind::Bool => ("bool", "`true` or `false`. A flag without a value means `true`."),
        FlagKind::Text => ("string", "Any text."),
        FlagKind::Int32 => ("int32", "An integer, decimal or with the prefix `0x`, `0o` or `0b`."),
        FlagKind::Int64 => ("int64", "An integer, decimal or with the prefix `0x`, `0o` or `0b`."),
        FlagKind::Duration => ("duration", "A Go duration such as `1m30s`."),
        FlagKind::Ip => ("IP address", "An IPv4 or IPv6 address."),
        FlagKind::List => {
            ("list", "Comma-separated values, optionally in double quotes. Repeated flags are concatenated.")
        }
        FlagKind::Map => ("map", "Comma-separated `KEY=VALUE` pairs. Repeated flags are merged."),
        FlagKind::OneEntryMap => {
            ("map entry", "One `KEY=VALUE` pair. The value may contain commas. Repeated flags are merged.")
        }
        FlagKind::Thresholds => {
            ("thresholds", "Comma-separated `SIGNAL<VALUE` pairs. Repeated flags are merged.")
        }
        FlagKind::Gates => ("feature gates", "Comma-separated `NAME=BOOL` pairs. Repeated flags are merged."),
        FlagKind::Headers => (
            "HTTP headers",
            "Comma-separated `NAME:VALUE` pairs. The values of a repeated name are concatenated.",
        ),
        FlagKind::Labels => {
            ("labels", "Comma-separated `KEY=VALUE` pairs or plain keys. Repeated flags are merged.")
        }
        FlagKind::Taints => {
            ("taints", "Comma-separated `KEY=VALUE:EFFECT`. The last flag replaces earlier ones.")
        }
        FlagKind::ReservedMemory => (
            "reserved memory",
            "`NODE:KIND=SIZE[,KIND=SIZE…]`, separated by semicolons. Repeated flags are concatenated.",
        ),
        FlagKind::Quantity => ("quantity", "A Kubernetes quantity such as `10Mi`."),
        FlagKind::Verbosity => ("verbosity", "An integer of at least 0."),
        FlagKind::Vmodule => {
            ("vmodule", "Comma-separated `PATTERN=N` pairs. Appended to the list of the configuration file.")
        }
        FlagKind::Version => ("version", "`true`, `false` or `raw`. A flag without a value means `true`."),
    }
}

/// The default of a flag, in the syntax of the command line.
fn default_value(flag: &FlagSpec, defaults: &Value) -> String {
    let path = match flag.target {
        Target::FlagOnly(default) | Target::Ignored(default) => return default.to_owned(),
        Target::Field(path) => format!("/{}", path.replace('.', "/")),
    };
    let separator = if flag.kind == FlagKind::Thresholds { "<" } else { "=" };
    let scalar = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match defaults.pointer(&path) {
        // A field that is not serialized because it is zero.
        None | Some(Value::Null) if flag.kind == FlagKind::Bool => "false".to_owned(),
        None | Some(Value::Null) if matches!(flag.kind, FlagKind::Int32 | FlagKind::Int64) => "0".to_owned(),
        None | Some(Value::Null) => String::new(),
        Some(Value::Array(items)) => items.iter().map(scalar).collect::<Vec<_>>().join(","),
        Some(Value::Object(fields)) => {
            let pairs = fields.iter().map(|(key, value)| format!("{key}{separator}{}", scalar(value)));
            pairs.collect::<Vec<_>>().join(",")
        }
        Some(value) => scalar(value),
    }
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

/// Escapes the characters of a description that Markdown would interpret.
fn escape(text: &str) -> String {
    let escaped = |c: char| matches!(c, '|' | '<' | '*' | '_' | '[' | ']').then_some('\\');
    text.chars().flat_map(|c| escaped(c).into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path};

    use super::*;

    #[test]
    fn flag_reference_matches_the_document() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/flags.md");
        let expected = flag_reference();
        if env::var_os("PODWARD_BLESS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &expected).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        let difference = expected.lines().zip(found.lines()).find(|(expected, found)| expected != found);
        assert!(
            found == expected,
            "docs/reference/flags.md is missing or stale (first different line: {difference:?}). \
             Regenerate it with: PODWARD_BLESS=1 cargo test -p config flag_reference"
        );
    }

    #[test]
    fn flag_reference_lists_every_flag_once() {
        let text = flag_reference();
        for name in table::flag_names() {
            let rows = text.lines().filter(|line| {
                line.starts_with(&format!("| `--{name}` ")) || line.contains(&format!(", `--{name}` |"))
            });
            // Flags with a different default in a configuration file have a second row in the introduction.
            let rows = rows.filter(|line| line.matches(" | ").count() > 2).count();
            assert_eq!(rows, 1, "{name}");
        }
    }
}
