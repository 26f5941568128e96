//! Detects whether two list responses are equivalent, without decoding them completely.
//!
//! Of the fields that the agent reads from a listed sandbox or container, only the state ever changes: labels, names and
//! times are set at creation. So a hash of all ids and states identifies a response. The encoded bytes cannot be
//! compared, because runtimes list objects and encode maps in any order.

use std::hash::{BuildHasher, Hasher, RandomState};

use model::ListMark;
use prost::Message;
use prost::bytes::Bytes;

/// Computes fingerprints. Only those of the same fingerprinter are comparable.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListFingerprinter(RandomState);

/// `ListPodSandboxResponse`.
#[derive(Clone, PartialEq, Message)]
struct Sandboxes {
    #[prost(message, repeated, tag = "1")]
    items: Vec<Sandbox>,
}

/// `PodSandbox`.
#[derive(Clone, PartialEq, Message)]
struct Sandbox {
    #[prost(bytes = "bytes", tag = "1")]
    id: Bytes,
    #[prost(int32, tag = "3")]
    state: i32,
}

/// `ListContainersResponse`.
#[derive(Clone, PartialEq, Message)]
struct Containers {
    #[prost(message, repeated, tag = "1")]
    containers: Vec<Container>,
}

/// `Container`.
#[derive(Clone, PartialEq, Message)]
struct Container {
    #[prost(bytes = "bytes", tag = "1")]
    id: Bytes,
    #[prost(int32, tag = "6")]
    state: i32,
}

#[derive(Clone, Copy)]
enum Kind {
    Sandbox,
    Container,
}

impl ListFingerprinter {
    /// Returns the fingerprint of both responses; `None` if one of them cannot be decoded.
    pub(crate) fn fingerprint(&self, sandboxes: &Bytes, containers: &Bytes) -> Option<ListMark> {
        let sandboxes = Sandboxes::decode(sandboxes.clone()).ok()?.items;
        let containers = Containers::decode(containers.clone()).ok()?.containers;
        let sandboxes = sandboxes.iter().map(|item| self.hash(Kind::Sandbox, &item.id, item.state));
        let containers = containers.iter().map(|item| self.hash(Kind::Container, &item.id, item.state));
        // A sum, so that the order does not matter.
        Some(ListMark::new(sandboxes.chain(containers).fold(0, u64::wrapping_add)))
    }

    fn hash(&self, kind: Kind, id: &[u8], state: i32) -> u64 {
        let mut hasher = self.0.build_hasher();
        hasher.write_u8(kind as u8);
        hasher.write_i32(state);
        hasher.write(id);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::v1;

    fn sandbox(id: &str, state: v1::PodSandboxState) -> v1::PodSandbox {
        let labels: HashMap<_, _> = (0..9).map(|n| (format!("label-{n}"), n.to_string())).collect();
        v1::PodSandbox { id: id.into(), state: state.into(), labels, created_at: 7, ..Default::default() }
    }

    fn container(id: &str, state: v1::ContainerState) -> v1::Container {
        let annotations: HashMap<_, _> = (0..9).map(|n| (format!("note-{n}"), n.to_string())).collect();
        v1::Container { id: id.into(), state: state.into(), annotations, ..Default::default() }
    }

    fn responses(items: Vec<v1::PodSandbox>, containers: Vec<v1::Container>) -> (Bytes, Bytes) {
        let sandboxes = v1::ListPodSandboxResponse { items }.encode_to_vec();
        (sandboxes.into(), v1::ListContainersResponse { containers }.encode_to_vec().into())
    }

    #[test]
    fn fingerprint_ignores_order_and_reflects_ids_and_states() {
        use v1::{ContainerState as C, PodSandboxState as S};
        let fingerprinter = ListFingerprinter::default();
        let fingerprint = |sandboxes, containers| {
            let (sandboxes, containers) = responses(sandboxes, containers);
            fingerprinter.fingerprint(&sandboxes, &containers).unwrap()
        };
        let (a, b) = (|| sandbox("a", S::SandboxReady), || sandbox("b", S::SandboxNotready));
        let (x, y) = (|| container("x", C::ContainerRunning), || container("y", C::ContainerExited));
        let first = fingerprint(vec![a(), b()], vec![x(), y()]);
        // Equal maps may also be encoded in a different order.
        assert_eq!(fingerprint(vec![b(), a()], vec![y(), x()]), first);
        let others = [
            fingerprint(vec![a()], vec![x(), y()]),
            fingerprint(vec![a(), b(), b()], vec![x(), y()]),
            fingerprint(vec![a(), b()], vec![x()]),
            fingerprint(vec![a(), b()], vec![]),
            fingerprint(vec![a(), sandbox("b", S::SandboxReady)], vec![x(), y()]),
            fingerprint(vec![a(), b()], vec![container("x", C::ContainerExited), y()]),
            fingerprint(vec![a(), b()], vec![container("x", C::ContainerUnknown), y()]),
            fingerprint(vec![a(), sandbox("c", S::SandboxNotready)], vec![x(), y()]),
            fingerprint(vec![], vec![]),
        ];
        for other in others {
            assert_ne!(other, first);
        }
    }

    #[test]
    fn fingerprint_distinguishes_sandboxes_from_containers() {
        let fingerprinter = ListFingerprinter::default();
        let (sandboxes, none) = responses(vec![sandbox("a", v1::PodSandboxState::SandboxReady)], Vec::new());
        let (nothing, containers) =
            responses(Vec::new(), vec![container("a", v1::ContainerState::ContainerCreated)]);
        assert_ne!(
            fingerprinter.fingerprint(&sandboxes, &none),
            fingerprinter.fingerprint(&nothing, &containers)
        );
    }

    #[test]
    fn invalid_response_has_no_fingerprint() {
        let fingerprinter = ListFingerprinter::default();
        let broken = Bytes::from_static(&[0x0a, 0xff]);
        assert_eq!(fingerprinter.fingerprint(&broken, &Bytes::new()), None);
        assert_eq!(fingerprinter.fingerprint(&Bytes::new(), &broken), None);
        assert!(fingerprinter.fingerprint(&Bytes::new(), &Bytes::new()).is_some());
    }
}
