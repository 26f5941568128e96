//! The nearest known name to a misspelt one.

/// The candidate that is fewest edits away, when it is near enough to be meant.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).clamp(1, 5);
    candidates
        .into_iter()
        .map(|candidate| (edits(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance, case ignored.
fn edits(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.to_lowercase().chars().enumerate() {
        let mut previous = i;
        let mut last = i + 1;
        let mut next = vec![last];
        for (r, above) in right.iter().zip(row.iter().skip(1)) {
            last = (last + 1).min(above + 1).min(previous + usize::from(l != *r));
            previous = *above;
            next.push(last);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_nearest_name_within_reason() {
        let names = ["max-pods", "max-open-files", "node-ip", "v"];
        assert_eq!(nearest("maxpods", names), Some("max-pods"));
        assert_eq!(nearest("node-pi", names), Some("node-ip"));
        assert_eq!(nearest("pod-infra-container-image", names), None);
        assert_eq!(edits("kitten", "sitting"), 3);
    }
}
