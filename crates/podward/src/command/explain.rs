//! `podward explain`: one sentence, the causes, the next try.

use std::process::ExitCode;

use model::local_api::{PodExplanation, paths};

use super::arguments::{Output, PodArguments};
use super::client::Client;
use super::get::{print, print_document};
use super::pod_names::{find, name_of};
use super::table::{age, long_time};
use super::terminal;

/// For output that does not go to a terminal.
const DEFAULT_WIDTH: usize = 120;

pub(super) async fn run(arguments: PodArguments) -> anyhow::Result<ExitCode> {
    let client = Client::from_flags(&arguments.connection);
    let pod = find(&client, &arguments.pod, arguments.scope.namespace.as_deref()).await?;
    let (namespace, name) = name_of(&pod);
    let explanation: PodExplanation = client.get(&format!("{}/{namespace}/{name}", paths::EXPLAIN)).await?;
    match arguments.format.output {
        Output::Json | Output::Yaml => print_document(arguments.format.output, &explanation)?,
        Output::Table | Output::Wide | Output::Name => {
            print(&text(&explanation, terminal::width().unwrap_or(DEFAULT_WIDTH)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn text(explanation: &PodExplanation, width: usize) -> String {
    let mut text = wrap(&explanation.sentence, width, "", "");
    if !explanation.causes.is_empty() {
        text.push_str("\nCauses:\n");
        for cause in &explanation.causes {
            text.push_str(&wrap(cause, width, "  - ", "    "));
        }
    }
    if let Some(next_try) = explanation.next_try {
        let delay = age(next_try.since(explanation.now));
        text.push_str(&format!("\nNext try: in {delay}, at {}.\n", long_time(next_try)));
    }
    text
}

/// Breaks text into lines of at most `width` columns. A longer word gets its own line.
fn wrap(text: &str, width: usize, first_indent: &str, indent: &str) -> String {
    let mut lines = String::new();
    let mut line = first_indent.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > width {
            lines.push_str(&line);
            lines.push('\n');
            line = indent.to_owned();
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
    use model::Timestamp;

    use super::*;

    const NOW: Timestamp = Timestamp::from_nanos(1_767_225_600_500_000_000);

    fn explanation(sentence: &str) -> PodExplanation {
        PodExplanation {
            causes: Vec::new(),
            namespace: "default".to_owned(),
            next_try: None,
            now: NOW,
            pod: "web".to_owned(),
            sentence: sentence.to_owned(),
            uid: "u".to_owned(),
            verdict: "Blocked".to_owned(),
        }
    }

    #[test]
    fn prints_sentence_then_causes_then_next_try() {
        let blocked = PodExplanation {
            causes: ["app:1: not found", "check the name and the tag of the image"].map(str::to_owned).into(),
            next_try: Some(Timestamp::from_secs(1_767_225_612)),
            ..explanation(
                "Pod default/web is not ready: the image \"app:1\" of container main cannot be pulled.",
            )
        };
        let expected = "\
Pod default/web is not ready: the image \"app:1\" of
container main cannot be pulled.

Causes:
  - app:1: not found
  - check the name and the tag of the image

Next try: in 11s, at 2026-01-01T00:00:12Z.
";
        assert_eq!(text(&blocked, 50), expected);
        let fine = explanation("Pod default/web is running and ready.");
        assert_eq!(text(&fine, 50), "Pod default/web is running and ready.\n");
    }
}
