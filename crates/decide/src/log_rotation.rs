//! Which of a log's rotated files go, and which are compressed.

/// What is done to the rotated files before a log is rotated once more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tidying {
    /// To be removed, oldest first.
    pub remove: Vec<String>,
    /// To be compressed, oldest first.
    pub compress: Vec<String>,
}

/// Decides from the names. What a broken-off compression left is removed: its unfinished file, and the plain file
/// beside a finished one. Of the others as many stay as leave room for the log and the one it is about to become.
#[must_use]
pub fn tidy(mut rotated: Vec<String>, max_files: usize) -> Tidying {
    rotated.sort();
    let has_packed = |name: &String| rotated.contains(&format!("{name}.gz"));
    let (mut remove, kept): (Vec<String>, Vec<String>) =
        rotated.iter().cloned().partition(|name| name.ends_with(".tmp") || has_packed(name));
    let surplus = kept.len().saturating_sub(max_files.saturating_sub(2));
    let (old, kept) = kept.split_at(surplus);
    remove.extend_from_slice(old);
    let compress = kept.iter().filter(|name| !name.ends_with(".gz")).cloned().collect();
    Tidying { remove, compress }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(rotated: &[&str], max_files: usize, remove: &[&str], compress: &[&str]) {
        let tidying = tidy(rotated.iter().map(ToString::to_string).collect(), max_files);
        assert_eq!(
            (tidying.remove.as_slice(), tidying.compress.as_slice()),
            (
                remove.iter().map(ToString::to_string).collect::<Vec<_>>().as_slice(),
                compress.iter().map(ToString::to_string).collect::<Vec<_>>().as_slice(),
            )
        );
    }

    #[test]
    fn the_last_rotated_file_is_compressed_at_the_next_rotation() {
        check(&["l.1.gz", "l.2"], 5, &[], &["l.2"]);
        check(&[], 5, &[], &[]);
    }

    #[test]
    fn the_oldest_files_make_room_for_the_next() {
        check(&["l.3", "l.1.gz", "l.2.gz"], 4, &["l.1.gz"], &["l.3"]);
        check(&["l.1.gz", "l.2"], 2, &["l.1.gz", "l.2"], &[]);
    }

    #[test]
    fn what_a_killed_agent_left_is_mended() {
        check(&["l.1", "l.1.gz", "l.2", "l.2.tmp"], 5, &["l.1", "l.2.tmp"], &["l.2"]);
    }

    proptest! {
        #[test]
        fn nothing_but_surplus_and_left_overs_goes(
            names in proptest::collection::btree_set("l\\.[1-4](\\.gz|\\.tmp)?", 0..10),
            max_files in 2usize..6,
        ) {
            let names: Vec<String> = names.into_iter().collect();
            let tidying = tidy(names.clone(), max_files);
            let kept: Vec<&String> = names.iter().filter(|name| !tidying.remove.contains(name)).collect();
            prop_assert!(kept.len() <= max_files - 2);
            prop_assert!(kept.iter().all(|name| !name.ends_with(".tmp")));
            prop_assert!(tidying.compress.iter().all(|name| kept.contains(&name)));
        }
    }
}
