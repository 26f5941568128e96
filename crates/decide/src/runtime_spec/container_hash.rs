//! The hash that detects changes of a container spec.

use k8s_openapi::api::core::v1::Container;
use values::fnv::Fnv32a;

use crate::go_text::json_string;

/// Hash of name and image, identical to upstream's, so that a node can switch between kubelet and Podward without
/// container restarts.
pub fn container_hash(container: &Container) -> u32 {
    let image = container.image.as_deref().unwrap_or_default();
    let json = format!("{{\"image\":{},\"name\":{}}}", json_string(image), json_string(&container.name));
    // Upstream hashes Go's text representation of the JSON bytes, not the bytes themselves.
    let mut hash = Fnv32a::new();
    hash.write(b"([]uint8)[");
    for (index, byte) in json.bytes().enumerate() {
        if index > 0 {
            hash.write(b" ");
        }
        hash.write(byte.to_string().as_bytes());
    }
    hash.write(b"]");
    hash.finish()
}

/// Formats the hash for the container annotation.
pub fn as_annotation(hash: u32) -> String {
    format!("{hash:x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(name: &str, image: &str) -> Container {
        Container { name: name.into(), image: Some(image.into()), ..Default::default() }
    }

    #[test]
    fn matches_hash_in_upstream_tests() {
        assert_eq!(as_annotation(container_hash(&container("test_container", "foo/image:v1"))), "8e45cbd0");
    }

    #[test]
    fn depends_on_name_and_image_only() {
        let mut other = container("a", "b");
        other.args = Some(vec!["x".into()]);
        assert_eq!(container_hash(&other), container_hash(&container("a", "b")));
        assert_ne!(container_hash(&container("a", "c")), container_hash(&container("a", "b")));
    }
}
