//! Several errors in one message.

/// Joins the distinct messages as upstream does: one as it is, several as a list in brackets.
pub fn aggregate(messages: &[String]) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    for message in messages {
        if !distinct.contains(&message.as_str()) {
            distinct.push(message);
        }
    }
    match distinct.as_slice() {
        [only] => (*only).to_owned(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_several_tries_are_joined_without_repetition() {
        let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(aggregate(&texts(&["a"])), "a");
        assert_eq!(aggregate(&texts(&["a", "a"])), "a");
        assert_eq!(aggregate(&texts(&["a", "b", "a"])), "[a, b]");
    }
}
