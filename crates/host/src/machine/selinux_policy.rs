//! Container labels of the machine's SELinux policy.

use std::path::Path;

use model::ContainerLabels;

/// Labels of container tools, which take precedence over the policy.
const TOOL_CONTEXTS: &str = "usr/share/containers/selinux/contexts";
const POLICIES: &str = "etc/selinux";

/// The labels of containers; empty if they cannot be read. `root` is usually `/`.
pub(crate) fn container_labels(root: &Path) -> ContainerLabels {
    let policies = root.join(POLICIES);
    let text = std::fs::read_to_string(root.join(TOOL_CONTEXTS)).or_else(|_| {
        let config = std::fs::read_to_string(policies.join("config")).unwrap_or_default();
        let policy = value(&config, "SELINUXTYPE").unwrap_or_default();
        std::fs::read_to_string(policies.join(policy).join("contexts/lxc_contexts"))
    });
    let text = text.unwrap_or_default();
    let label = |key: &str| value(&text, key).unwrap_or_default();
    ContainerLabels { process: label("process"), file: label("file") }
}

/// The last value of a key in lines such as `key = "value"`.
fn value(text: &str, key: &str) -> Option<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with([';', '#']));
    let mut pairs = lines.filter_map(|line| line.split_once('='));
    let (_, value) = pairs.rfind(|(name, _)| name.trim() == key)?;
    Some(value.trim().trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_folder::Scratch;

    #[test]
    fn labels_of_container_tools_override_the_policy() {
        let scratch = Scratch::new();
        let root = scratch.path();
        assert_eq!(container_labels(root), ContainerLabels::default());
        scratch.write("etc/selinux/config", "# SELINUXTYPE=no\nSELINUX=enforcing\nSELINUXTYPE=targeted\n\n");
        assert_eq!(container_labels(root), ContainerLabels::default());
        let text = "# file = \"x\"\n\nprocess = \"u:r:container_t:s0\"\nfile = \"u:object_r:container_file_t:s0\"\n\
                    ro_file=\"u:object_r:container_ro_file_t:s0\"\nno value\n";
        scratch.write("etc/selinux/targeted/contexts/lxc_contexts", text);
        let found = container_labels(root);
        assert_eq!(
            (found.process.as_str(), found.file.as_str()),
            ("u:r:container_t:s0", "u:object_r:container_file_t:s0")
        );
        scratch.write(TOOL_CONTEXTS, "process=\"a:b:c\"\n;file=\"x\"\n");
        let found = container_labels(root);
        assert_eq!((found.process.as_str(), found.file.as_str()), ("a:b:c", ""));
    }
}
