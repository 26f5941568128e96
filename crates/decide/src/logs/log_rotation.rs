//! Which rotated files of a log are removed or compressed.

/// The cleanup of rotated files before the next rotation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RotationCleanup {
    /// Files to remove, oldest first.
    pub remove: Vec<String>,
    /// Files to compress, oldest first.
    pub compress: Vec<String>,
}

/// Decides from the names. Removes the leftovers of an interrupted compression: its temporary file, or the plain file beside a
/// finished one. Of the others it keeps `max_files` minus the current log and the file that it is about to become.
pub fn rotation_cleanup(mut rotated: Vec<String>, max_files: usize) -> RotationCleanup {
    rotated.sort();
    let has_packed = |name: &String| rotated.contains(&format!("{name}.gz"));
    let (mut remove, kept): (Vec<String>, Vec<String>) =
        rotated.iter().cloned().partition(|name| name.ends_with(".tmp") || has_packed(name));
    let surplus = kept.len().saturating_sub(max_files.saturating_sub(2));
    let (old, kept) = kept.split_at(surplus);
    remove.extend_from_slice(old);
    let compress = kept.iter().filter(|name| !name.ends_with(".gz")).cloned().collect();
    RotationCleanup { remove, compress }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(rotated: &[&str], max_files: usize, remove: &[&str], compress: &[&str]) {
        let cleanup = rotation_cleanup(rotated.iter().map(ToString::to_string).collect(), max_files);
        assert_eq!(
            (cleanup.remove.as_slice(), cleanup.compress.as_slice()),
            (
                remove.iter().map(ToString::to_string).collect::<Vec<_>>().as_slice(),
                compress.iter().map(ToString::to_string).collect::<Vec<_>>().as_slice(),
            )
        );
    }

    #[test]
    fn compresses_previous_file_at_the_next_rotation() {
        check(&["l.1.gz", "l.2"], 5, &[], &["l.2"]);
        check(&[], 5, &[], &[]);
    }

    #[test]
    fn removes_oldest_files_beyond_the_limit() {
        check(&["l.3", "l.1.gz", "l.2.gz"], 4, &["l.1.gz"], &["l.3"]);
        check(&["l.1.gz", "l.2"], 2, &["l.1.gz", "l.2"], &[]);
    }

    #[test]
    fn removes_leftovers_of_an_interrupted_compression() {
        check(&["l.1", "l.1.gz", "l.2", "l.2.tmp"], 5, &["l.1", "l.2.tmp"], &["l.2"]);
    }

    proptest! {
        #[test]
        fn removes_only_surplus_and_leftovers(
            names in proptest::collection::btree_set("l\\.[1-4](\\.gz|\\.tmp)?", 0..10),
            max_files in 2usize..6,
        ) {
            let names: Vec<String> = names.into_iter().collect();
            let cleanup = rotation_cleanup(names.clone(), max_files);
            let kept: Vec<&String> = names.iter().filter(|name| !cleanup.remove.contains(name)).collect();
            prop_assert!(kept.len() <= max_files - 2);
            prop_assert!(kept.iter().all(|name| !name.ends_with(".tmp")));
            prop_assert!(cleanup.compress.iter().all(|name| kept.contains(&name)));
        }
    }
}
