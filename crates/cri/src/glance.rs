//! Whether two answers of the list calls say the same, found out without reading them whole.
//!
//! What an agent reads of a sandbox or container in a list never changes, but for its state: labels, names and times are
//! given when it is made. So ids and states stand for the whole answer. Runtimes list in any order, and write maps in
//! any order, so the bytes themselves cannot be compared.

use std::hash::{BuildHasher, Hasher, RandomState};

use model::ListMark;
use prost::Message;
use prost::bytes::Bytes;

/// Makes marks; those of two makers cannot be compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks(RandomState);

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

impl Marks {
    /// The mark of two answers; `None` if one of them is not what the contract says.
    pub(crate) fn of(&self, sandboxes: &Bytes, containers: &Bytes) -> Option<ListMark> {
        let sandboxes = Sandboxes::decode(sandboxes.clone()).ok()?.items;
        let containers = Containers::decode(containers.clone()).ok()?.containers;
        let sandboxes = sandboxes.iter().map(|item| self.number(Kind::Sandbox, &item.id, item.state));
        let containers = containers.iter().map(|item| self.number(Kind::Container, &item.id, item.state));
        // A sum does not depend on the order.
        Some(ListMark::new(sandboxes.chain(containers).fold(0, u64::wrapping_add)))
    }

    fn number(&self, kind: Kind, id: &[u8], state: i32) -> u64 {
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

    fn answers(items: Vec<v1::PodSandbox>, containers: Vec<v1::Container>) -> (Bytes, Bytes) {
        let sandboxes = v1::ListPodSandboxResponse { items }.encode_to_vec();
        (sandboxes.into(), v1::ListContainersResponse { containers }.encode_to_vec().into())
    }

    #[test]
    fn the_same_objects_in_any_order_have_one_mark() {
        use v1::{ContainerState as C, PodSandboxState as S};
        let marks = Marks::default();
        let mark = |sandboxes, containers| {
            let (sandboxes, containers) = answers(sandboxes, containers);
            marks.of(&sandboxes, &containers).unwrap()
        };
        let (a, b) = (|| sandbox("a", S::SandboxReady), || sandbox("b", S::SandboxNotready));
        let (x, y) = (|| container("x", C::ContainerRunning), || container("y", C::ContainerExited));
        let first = mark(vec![a(), b()], vec![x(), y()]);
        // Maps of equal content are written in orders of their own.
        assert_eq!(mark(vec![b(), a()], vec![y(), x()]), first);
        let others = [
            mark(vec![a()], vec![x(), y()]),
            mark(vec![a(), b(), b()], vec![x(), y()]),
            mark(vec![a(), b()], vec![x()]),
            mark(vec![a(), b()], vec![]),
            mark(vec![a(), sandbox("b", S::SandboxReady)], vec![x(), y()]),
            mark(vec![a(), b()], vec![container("x", C::ContainerExited), y()]),
            mark(vec![a(), b()], vec![container("x", C::ContainerUnknown), y()]),
            mark(vec![a(), sandbox("c", S::SandboxNotready)], vec![x(), y()]),
            mark(vec![], vec![]),
        ];
        for other in others {
            assert_ne!(other, first);
        }
    }

    #[test]
    fn a_sandbox_is_no_container() {
        let marks = Marks::default();
        let (sandboxes, none) = answers(vec![sandbox("a", v1::PodSandboxState::SandboxReady)], Vec::new());
        let (nothing, containers) =
            answers(Vec::new(), vec![container("a", v1::ContainerState::ContainerCreated)]);
        assert_ne!(marks.of(&sandboxes, &none), marks.of(&nothing, &containers));
    }

    #[test]
    fn what_cannot_be_read_has_no_mark() {
        let marks = Marks::default();
        let broken = Bytes::from_static(&[0x0a, 0xff]);
        assert_eq!(marks.of(&broken, &Bytes::new()), None);
        assert_eq!(marks.of(&Bytes::new(), &broken), None);
        assert!(marks.of(&Bytes::new(), &Bytes::new()).is_some());
    }
}
