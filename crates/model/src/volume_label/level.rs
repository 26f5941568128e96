//! The level of a label, written as the kernel writes it: two ways to write one level must not look like two.

use std::collections::BTreeSet;

/// The largest number of categories of a policy.
const MOST_CATEGORIES: u32 = 1024;

/// `s0:c5,c1` → `s0:c1,c5`; what has another form stays as it is.
pub(super) fn canonical(level: &str) -> String {
    let halves: Option<Vec<String>> = level.splitn(2, '-').map(single).collect();
    match halves.as_deref() {
        Some([low, high]) if low == high => low.clone(),
        Some(halves) => halves.join("-"),
        None => level.to_owned(),
    }
}

/// A sensitivity with its categories.
fn single(text: &str) -> Option<String> {
    let (sensitivity, list) = text.split_once(':').map_or((text, None), |(first, rest)| (first, Some(rest)));
    number(sensitivity, 's')?;
    let Some(list) = list else { return Some(sensitivity.to_owned()) };
    let mut categories = BTreeSet::new();
    for item in list.split(',') {
        let (first, last) = item.split_once('.').unwrap_or((item, item));
        let (first, last) = (number(first, 'c')?, number(last, 'c')?);
        if last >= MOST_CATEGORIES || first > last {
            return None;
        }
        categories.extend(first..=last);
    }
    Some(format!("{sensitivity}:{}", ranges(&categories)))
}

fn number(text: &str, letter: char) -> Option<u32> {
    let digits = text.strip_prefix(letter)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// Three and more in a row are a range.
fn ranges(categories: &BTreeSet<u32>) -> String {
    let mut rows: Vec<(u32, u32)> = Vec::new();
    for category in categories {
        match rows.last_mut() {
            Some((_, last)) if *last + 1 == *category => *last = *category,
            _ => rows.push((*category, *category)),
        }
    }
    let texts = rows.iter().map(|(first, last)| match last - first {
        0 => format!("c{first}"),
        1 => format!("c{first},c{last}"),
        _ => format!("c{first}.c{last}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_level_is_written_in_one_way() {
        for (given, expected) in [
            ("s0", "s0"),
            ("s0:c1,c5", "s0:c1,c5"),
            ("s0:c5,c1", "s0:c1,c5"),
            ("s0:c5,c5", "s0:c5"),
            ("s0:c1,c2", "s0:c1,c2"),
            ("s0:c1,c2,c3", "s0:c1.c3"),
            ("s0:c1.c2", "s0:c1,c2"),
            ("s0:c0.c1023", "s0:c0.c1023"),
            ("s0-s0:c0.c1023", "s0-s0:c0.c1023"),
            ("s0-s0", "s0"),
            ("s1:c2,c1-s2:c3,c2,c1", "s1:c1,c2-s2:c1.c3"),
            // Of no known form.
            ("SystemLow", "SystemLow"),
            ("s0:c1024", "s0:c1024"),
            ("s0:c0.c4294967295", "s0:c0.c4294967295"),
            ("s0:c3.c1", "s0:c3.c1"),
            ("s0:c", "s0:c"),
            ("s0:", "s0:"),
            ("s", "s"),
            ("s0:c+1", "s0:c+1"),
        ] {
            assert_eq!(canonical(given), expected, "{given}");
        }
    }
}
