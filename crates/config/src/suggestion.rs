//! Finds the known name that is most similar to a misspelt one.

/// The candidate with the smallest edit distance, if it is similar enough to be a plausible correction.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).clamp(1, 5);
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Case-insensitive Levenshtein distance.
fn edit_distance(left: &str, right: &str) -> usize {
    strsim::levenshtein(&left.to_lowercase(), &right.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_the_nearest_name_only_if_it_is_similar() {
        let names = ["max-pods", "max-open-files", "node-ip", "v"];
        assert_eq!(nearest("maxpods", names), Some("max-pods"));
        assert_eq!(nearest("node-pi", names), Some("node-ip"));
        assert_eq!(nearest("pod-infra-container-image", names), None);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }
}
