//! Removes values that differ between runs from an object.

use serde_json::Value;

/// The random values in one pod's object.
pub(crate) struct Normaliser {
    words: Vec<(String, &'static str)>,
}

impl Normaliser {
    /// Takes UID and addresses from the pod.
    pub(crate) fn of(pod: &Value, folder: &str) -> Self {
        let mut words = vec![(folder.to_owned(), "<node>")];
        let mut learn = |pointer: &str, name| {
            if let Some(text) = pod.pointer(pointer).and_then(Value::as_str)
                && !text.is_empty()
            {
                words.push((text.to_owned(), name));
            }
        };
        learn("/metadata/uid", "<uid>");
        learn("/status/hostIP", "<host-ip>");
        learn("/status/podIP", "<pod-ip>");
        Self { words }
    }

    /// The object without random values.
    pub(crate) fn object(&self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| (name.clone(), self.object(value))).collect()
            }
            Value::Array(items) => items.iter().map(|item| self.object(item)).collect(),
            Value::String(text) => Value::String(self.text(text)),
            other => other.clone(),
        }
    }

    /// The text without random values.
    pub(crate) fn text(&self, text: &str) -> String {
        if is_time(text) {
            return "<time>".to_owned();
        }
        let mut text = text.to_owned();
        for (word, name) in &self.words {
            text = text.replace(word.as_str(), name);
        }
        without_ids(&text)
    }

    /// An event's message, also without pull durations and backoff delays.
    pub(crate) fn event(&self, text: &str) -> String {
        self.text(text)
            .split(' ')
            .map(|word| if is_duration(word) { "<duration>" } else { word })
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// Gives a terminated container and one that waits for its next start the same state.
pub(crate) fn normalise_crashes(pod: &mut Value) {
    for list in ["initContainerStatuses", "containerStatuses"] {
        let statuses = pod.pointer_mut(&format!("/status/{list}")).and_then(Value::as_array_mut);
        for status in statuses.into_iter().flatten().filter_map(Value::as_object_mut) {
            if status.get("restartCount").is_none_or(|count| count.as_u64() == Some(0)) {
                continue;
            }
            let waits = status.get("state").is_some_and(|state| state.get("waiting").is_some());
            if let (true, Some(ended)) = (waits, status.get("lastState").cloned()) {
                status.insert("state".to_owned(), ended);
            }
            status.insert("lastState".to_owned(), "<an earlier end>".into());
            status.insert("restartCount".to_owned(), "<some>".into());
        }
    }
}

/// An RFC 3339 time.
fn is_time(text: &str) -> bool {
    text.len() >= 20 && text.parse::<jiff::Timestamp>().is_ok()
}

/// A duration with a fraction, as Go prints measured ones.
fn is_duration(word: &str) -> bool {
    let word = word.trim_matches(['(', ')', '.']);
    let number = word.trim_end_matches(|letter: char| letter.is_alphabetic() || letter == 'µ');
    let unit = word.strip_prefix(number).unwrap_or_default();
    matches!(unit, "ms" | "µs" | "us" | "ns" | "s") && number.parse::<f64>().is_ok()
}

/// Replaces IDs of containers and sandboxes: 64 hexadecimal digits that are not an image digest.
fn without_ids(text: &str) -> String {
    let mut result = String::new();
    let mut run = String::new();
    for letter in text.chars().chain(std::iter::once('\0')) {
        if letter.is_ascii_hexdigit() {
            run.push(letter);
            continue;
        }
        if run.len() == 64 && !result.ends_with("sha256:") {
            result.push_str("<id>");
        } else {
            result.push_str(&run);
        }
        run.clear();
        if letter != '\0' {
            result.push(letter);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn removes_random_values_only() {
        let id = "a1".repeat(32);
        let pod = json!({
            "metadata": {"uid": "u-1"},
            "status": {"podIP": "10.0.0.9", "startTime": "2026-01-02T03:04:05Z", "message": format!("u-1 at 10.0.0.9 in {id}"),
                "image": format!("x@sha256:{id}")},
        });
        let seen = Normaliser::of(&pod, "/tmp/pw-x").object(&pod);
        assert_eq!(seen["status"]["message"], "<uid> at <pod-ip> in <id>");
        assert_eq!(seen["status"]["startTime"], "<time>");
        assert_eq!(seen["status"]["image"], format!("x@sha256:{id}"));
    }

    #[test]
    fn measured_durations_are_removed_from_events() {
        let normaliser = Normaliser::of(&Value::Null, "/tmp/pw-x");
        let text = normaliser.event("pulled in 1.25s (2ms including waiting). Image size: 7 bytes.");
        assert_eq!(text, "pulled in <duration> <duration> including waiting). Image size: 7 bytes.");
    }
}
