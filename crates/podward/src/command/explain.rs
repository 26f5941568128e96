//! `podward explain`: one sentence, the causes, the next try.

use std::process::ExitCode;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::Timestamp;
use serde_json::Value;

use super::arguments::{Output, PodArguments};
use super::client::Client;
use super::get::print;
use super::names::{find, name_of};
use super::table::{age, long_time};
use super::terminal;
use model::yaml::to_yaml;

/// The longest line where the terminal does not say.
const USUAL_WIDTH: usize = 120;

/// Runs the command.
pub(super) async fn run(arguments: PodArguments) -> anyhow::Result<ExitCode> {
    let client = Client::of(&arguments.connection);
    let pod = find(&client, &arguments.pod, arguments.scope.namespace.as_deref()).await?;
    let (namespace, name) = name_of(&pod);
    let answer = client.json(&format!("/podward/explain/{namespace}/{name}")).await?;
    match arguments.output {
        Output::Json => print(&(serde_json::to_string_pretty(&answer)? + "\n"))?,
        Output::Yaml => print(&to_yaml(&answer))?,
        Output::Table | Output::Wide | Output::Name => {
            print(&text(&answer, terminal::width().unwrap_or(USUAL_WIDTH)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn text(answer: &Value, width: usize) -> String {
    let mut text = wrapped(answer["sentence"].as_str().unwrap_or_default(), width, "", "");
    let causes: Vec<&str> =
        answer["causes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !causes.is_empty() {
        text.push_str("\nCauses:\n");
        for cause in causes {
            text.push_str(&wrapped(cause, width, "  - ", "    "));
        }
    }
    let time = |field: &str| {
        let time: Time = serde_json::from_value(answer[field].clone()).ok()?;
        Some(Timestamp::from_api_time(&time))
    };
    if let (Some(next), Some(now)) = (time("nextTry"), time("now")) {
        text.push_str(&format!("\nNext try: in {}, at {}.\n", age(next.since(now)), long_time(next)));
    }
    text
}

/// Lines of at most that many columns; words are not cut.
fn wrapped(text: &str, width: usize, first: &str, others: &str) -> String {
    let mut lines = String::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > width {
            lines.push_str(&line);
            lines.push('\n');
            line = others.to_owned();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push_str(&line);
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_sentence_comes_first_then_the_causes_and_the_next_try() {
        let answer = json!({
            "sentence": "Pod default/web is not ready: the image \"app:1\" of container main cannot be pulled.",
            "causes": ["app:1: not found", "check the name and the tag of the image"],
            "nextTry": "2026-01-01T00:00:12Z", "now": "2026-01-01T00:00:00.5Z",
        });
        let expected = "\
Pod default/web is not ready: the image \"app:1\" of
container main cannot be pulled.

Causes:
  - app:1: not found
  - check the name and the tag of the image

Next try: in 11s, at 2026-01-01T00:00:12Z.
";
        assert_eq!(text(&answer, 50), expected);
        let fine =
            json!({"sentence": "Pod default/web is running and ready.", "causes": [], "nextTry": null});
        assert_eq!(text(&fine, 50), "Pod default/web is running and ready.\n");
    }
}
