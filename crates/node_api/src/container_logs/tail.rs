//! Finds the beginning of the last lines of a log.

use ports::host::log_files::LogFile;
use ports::host::pod_folders::FileError;

const BLOCK: u64 = 16 * 1024;

/// The position that is followed by that many complete lines, and by the incomplete last line if there is one.
pub(super) async fn start(file: &dyn LogFile, lines: u64) -> Result<u64, FileError> {
    let mut right = file.size().await?;
    let mut remaining = lines;
    while right > 0 {
        let left = right.saturating_sub(BLOCK);
        let bytes = file.read_at(left, usize::try_from(right - left).unwrap_or_default()).await?;
        for (index, byte) in bytes.iter().enumerate().rev() {
            if *byte != b'\n' {
                continue;
            }
            if remaining == 0 {
                return Ok(left + u64::try_from(index).unwrap_or_default() + 1);
            }
            remaining -= 1;
        }
        right = left;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use ports::host::log_files::FileIdentity;
    use proptest::prelude::*;

    use super::*;

    struct FakeFile(Vec<u8>);

    #[async_trait]
    impl LogFile for FakeFile {
        fn identity(&self) -> FileIdentity {
            FileIdentity { device: 0, number: 0 }
        }

        async fn size(&self) -> Result<u64, FileError> {
            Ok(self.0.len() as u64)
        }

        async fn read_at(&self, position: u64, max: usize) -> Result<Vec<u8>, FileError> {
            let from = usize::try_from(position).unwrap();
            Ok(self.0[from..(from + max).min(self.0.len())].to_vec())
        }
    }

    fn tail(text: &[u8], lines: u64) -> Vec<u8> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let position = runtime.block_on(start(&FakeFile(text.to_vec()), lines)).unwrap();
        text[usize::try_from(position).unwrap()..].to_vec()
    }

    #[test]
    fn tail_starts_after_line_end() {
        for (text, lines, expected) in [
            ("", 3, ""),
            ("a\nb\n", 0, ""),
            ("a\nb\n", 1, "b\n"),
            ("a\nb\n", 2, "a\nb\n"),
            ("a\nb\n", 9, "a\nb\n"),
            ("a\nb\nc", 1, "b\nc"),
            ("\n\n\n", 2, "\n\n"),
        ] {
            assert_eq!(tail(text.as_bytes(), lines), expected.as_bytes(), "{text:?} {lines}");
        }
    }

    proptest! {
        #[test]
        fn tail_has_requested_number_of_lines(lengths in prop::collection::vec(0usize..9000, 0..12), lines in 0u64..14) {
            let text: Vec<u8> = lengths.iter().flat_map(|length| [vec![b'x'; *length], vec![b'\n']].concat()).collect();
            let found = tail(&text, lines);
            let count = found.iter().filter(|byte| **byte == b'\n').count() as u64;
            prop_assert_eq!(count, lines.min(lengths.len() as u64));
            prop_assert!(text.ends_with(&found));
        }
    }
}
