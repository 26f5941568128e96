//! JSON values as YAML, in kubectl's layout.

use serde_json::Value;

/// The value as a YAML document.
pub fn to_yaml(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => write_value(&mut text, value, 0),
        Value::Array(items) if !items.is_empty() => write_value(&mut text, value, 0),
        _ => {
            text.push_str(&scalar(value, 0));
            text.push('\n');
        }
    }
    text
}

fn write_value(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(fields) => {
            for (at, (name, field)) in fields.iter().enumerate() {
                // The first field of an item stands behind its dash.
                if at > 0 || !text.ends_with("- ") {
                    push_indent(text, indent);
                }
                text.push_str(&key(name));
                text.push(':');
                write_field(text, field, indent);
            }
        }
        Value::Array(items) => {
            for item in items {
                push_indent(text, indent);
                text.push_str("- ");
                match item {
                    Value::Object(fields) if !fields.is_empty() => write_value(text, item, indent + 2),
                    Value::Array(inner) if !inner.is_empty() => {
                        // A nested list begins on a new line.
                        text.truncate(text.trim_end_matches(' ').len());
                        text.push('\n');
                        write_value(text, item, indent + 2);
                    }
                    _ => {
                        text.push_str(&scalar(item, indent + 2));
                        text.push('\n');
                    }
                }
            }
        }
        _ => {}
    }
}

fn write_field(text: &mut String, field: &Value, indent: usize) {
    match field {
        Value::Object(fields) if !fields.is_empty() => {
            text.push('\n');
            write_value(text, field, indent + 2);
        }
        // Lists stand under their name, not behind it.
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            write_value(text, field, indent);
        }
        _ => {
            text.push(' ');
            text.push_str(&scalar(field, indent + 2));
            text.push('\n');
        }
    }
}

fn push_indent(text: &mut String, indent: usize) {
    text.extend(std::iter::repeat_n(' ', indent));
}

fn key(name: &str) -> String {
    if is_plain(name) { name.to_owned() } else { quoted(name) }
}

fn scalar(value: &Value, indent: usize) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
        Value::Array(_) => "[]".to_owned(),
        Value::Object(_) => "{}".to_owned(),
        Value::String(text) if is_block(text) => block(text, indent),
        Value::String(text) if is_plain(text) => text.clone(),
        Value::String(text) => quoted(text),
    }
}

/// Texts of several plain lines are shown as they are.
fn is_block(text: &str) -> bool {
    let plain = |letter: char| letter == '\n' || !(letter.is_control() || letter == '\u{feff}');
    text.contains('\n') && text.chars().all(plain) && !text.starts_with([' ', '\n'])
}

fn block(text: &str, indent: usize) -> String {
    let sign = match (text.ends_with('\n'), text.ends_with("\n\n")) {
        (true, true) => "|+",
        (true, false) => "|",
        (false, _) => "|-",
    };
    let mut lines = sign.to_owned();
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        lines.push('\n');
        if !line.is_empty() {
            push_indent(&mut lines, indent);
            lines.push_str(line);
        }
    }
    lines
}

/// Whether a text needs no quotes.
fn is_plain(text: &str) -> bool {
    let words = ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "~"];
    let first = text.chars().next();
    let is_word = words.contains(&text.to_lowercase().as_str());
    // Quotes everything that may be read as a number.
    let starts = first.is_some_and(|letter| letter.is_ascii_alphabetic() || letter == '/' || letter == '_');
    let hex_time = text.starts_with("0x");
    let safe = |letter: char| letter.is_alphanumeric() || " _-./:=@+()<>$,;~*%!?".contains(letter);
    starts
        && !is_word
        && !hex_time
        && text.chars().all(safe)
        && !text.contains(": ")
        && !text.ends_with([':', ' '])
}

fn quoted(text: &str) -> String {
    // A JSON string is a YAML string in double quotes.
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_look_as_kubectl_prints_them() {
        let value = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "labels": {"app": "web", "a/b": "1"}, "annotations": {}},
            "spec": {"containers": [{"args": ["-c", "echo: x"], "name": "main", "ports": [{"containerPort": 80}]}],
                "volumes": [], "hostNetwork": true, "nothing": null},
        });
        let text = "\
apiVersion: v1
kind: Pod
metadata:
  annotations: {}
  labels:
    a/b: \"1\"
    app: web
  name: web
spec:
  containers:
  - args:
    - \"-c\"
    - \"echo: x\"
    name: main
    ports:
    - containerPort: 80
  hostNetwork: true
  nothing: null
  volumes: []
";
        assert_eq!(to_yaml(&value), text);
    }

    #[test]
    fn texts_keep_their_meaning() {
        let check =
            |text: &str, shown: &str| assert_eq!(to_yaml(&json!({"k": text})), format!("k: {shown}\n"));
        check("", "\"\"");
        check("true", "\"true\"");
        check("No", "\"No\"");
        check("1.5", "\"1.5\"");
        check("2026-01-01T00:00:00Z", "\"2026-01-01T00:00:00Z\"");
        check("a # b", "\"a # b\"");
        check("a: b", "\"a: b\"");
        check("docker.io/library/app:1", "docker.io/library/app:1");
        check("one\ntwo\n", "|\n  one\n  two");
        check("one\n\ntwo", "|-\n  one\n\n  two");
        check("tab\there\nx", "\"tab\\there\\nx\"");
    }
}
