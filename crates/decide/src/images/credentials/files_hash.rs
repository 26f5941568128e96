//! Hash of the credential provider configuration files, for a metric.

use sha2::{Digest, Sha256};

/// Upstream's hash of the contents in order, each preceded by its length.
pub fn files_hash(files: &[Vec<u8>]) -> String {
    let mut hash = Sha256::new();
    for content in files {
        hash.update(u64::try_from(content.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(content);
    }
    format!("sha256:{:x}", hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_hash_separates_contents() {
        let expected = "sha256:a686839eab39a68df823fce03547dee4f4f50a18013cd475e70731100462f023";
        assert_eq!(files_hash(&[b"kind: A\n".to_vec(), b"kind: B\n".to_vec()]), expected);
        assert_ne!(files_hash(&[b"kind: A\nkind: B\n".to_vec()]), expected);
    }
}
