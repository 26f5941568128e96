//! The value of every flag, for diagnostics.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{CommandLine, Target, table};
use crate::KubeletConfiguration;

/// Flags whose values must not be shown.
const SECRET_FLAGS: [&str; 1] = ["manifest-url-header"];

/// The value of every flag as given on the command line, or its default. Configuration files are not considered.
pub(crate) fn flag_values(line: &CommandLine) -> BTreeMap<String, String> {
    let defaults = KubeletConfiguration::legacy_defaults().to_json();
    let value = |flag: &table::FlagSpec| match (line.raw_values(flag.name), flag.target) {
        (Some(_), _) if SECRET_FLAGS.contains(&flag.name) => "<masked>".to_owned(),
        (Some(values), _) => values.join(","),
        (None, Target::FlagOnly(default) | Target::Ignored(default)) => default.to_owned(),
        (None, Target::Field(field)) => {
            let path = format!("/{}", field.replace('.', "/"));
            defaults.pointer(&path).map(format_value).unwrap_or_default()
        }
    };
    table::all().map(|flag| (flag.name.to_owned(), value(flag))).collect()
}

/// Formats a default value like a command line argument.
fn format_value(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(format_value).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            let pairs = fields.iter().map(|(name, value)| format!("{name}={}", format_value(value)));
            pairs.collect::<Vec<_>>().join(",")
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_given_values_and_defaults_and_masks_secrets() {
        let arguments = ["--v=4", "--hostname-override=n", "--manifest-url-header=a:secret"];
        let line = CommandLine::parse(&arguments.map(str::to_owned)).unwrap();
        let values = flag_values(&line);
        let shown = |name: &str| values.get(name).map(String::as_str);
        assert_eq!(shown("v"), Some("4"));
        assert_eq!(shown("hostname-override"), Some("n"));
        assert_eq!(shown("manifest-url-header"), Some("<masked>"));
        assert_eq!(shown("address"), Some("0.0.0.0"));
        assert_eq!(shown("enforce-node-allocatable"), Some("[pods]"));
        assert_eq!(shown("authorization-mode"), Some("AlwaysAllow"));
        assert_eq!(values.len(), table::all().count());
    }
}
