use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use cri::v1::{CgroupDriver, PullImageRequest, RuntimeHandler};

use super::behaviour::Behaviours;
use super::event::Subscribers;
use super::image::Images;
use super::record::{Container, Sandbox};
use super::rpc::{Call, Rpc, Subject};
use super::violation::Violation;

/// The complete state of the fake runtime. Tests read it; only calls and test controls change it.
#[derive(Debug)]
pub struct RuntimeState {
    pub(crate) sandboxes: BTreeMap<String, Sandbox>,
    pub(crate) containers: BTreeMap<String, Container>,
    /// Reserved names, as in containerd.
    pub(crate) sandbox_names: HashMap<String, String>,
    pub(crate) container_names: HashMap<String, String>,
    /// IDs by the value of the pod UID label, which agents select by.
    pub(crate) labelled_sandboxes: HashMap<String, BTreeSet<String>>,
    pub(crate) labelled_containers: HashMap<String, BTreeSet<String>>,
    /// READY sandboxes by pod UID.
    pub(crate) ready: HashMap<String, BTreeSet<String>>,
    /// RUNNING containers by pod UID and name.
    pub(crate) running: HashMap<(String, String), BTreeSet<String>>,
    /// Scheduled exits of running containers; outdated entries are skipped.
    pub(crate) due: BinaryHeap<Reverse<(i64, String)>>,
    pub(crate) images: Images,
    pub(crate) pulls: Vec<PullImageRequest>,
    pub(crate) behaviours: Behaviours,
    pub(crate) subscribers: Subscribers,
    pub(crate) settings: Settings,
    pub(crate) violations: Vec<Violation>,
    calls: Vec<Call>,
    counts: HashMap<Rpc, usize>,
    made: u32,
}

/// Settings that tests can change.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) runtime_ready: bool,
    pub(crate) network_ready: bool,
    /// `None`: the RuntimeConfig call is unimplemented.
    pub(crate) cgroup_driver: Option<CgroupDriver>,
    pub(crate) lists_in_pieces: bool,
    pub(crate) handlers: Vec<RuntimeHandler>,
}

impl Default for RuntimeState {
    fn default() -> Self {
        Self {
            sandboxes: BTreeMap::new(),
            containers: BTreeMap::new(),
            sandbox_names: HashMap::new(),
            container_names: HashMap::new(),
            labelled_sandboxes: HashMap::new(),
            labelled_containers: HashMap::new(),
            ready: HashMap::new(),
            running: HashMap::new(),
            due: BinaryHeap::new(),
            images: Images::default(),
            pulls: Vec::new(),
            behaviours: Behaviours::default(),
            subscribers: Subscribers::default(),
            settings: Settings {
                runtime_ready: true,
                network_ready: true,
                cgroup_driver: Some(CgroupDriver::Cgroupfs),
                lists_in_pieces: false,
                handlers: Vec::new(),
            },
            violations: Vec::new(),
            calls: Vec::new(),
            counts: HashMap::new(),
            made: 0,
        }
    }
}

impl RuntimeState {
    /// Authentication of the pull requests, oldest first.
    #[must_use]
    pub fn pulls(&self) -> &[PullImageRequest] {
        &self.pulls
    }

    /// All sandboxes, oldest first.
    pub fn sandboxes(&self) -> impl Iterator<Item = &Sandbox> {
        self.sandboxes.values()
    }

    /// All containers, oldest first.
    pub fn containers(&self) -> impl Iterator<Item = &Container> {
        self.containers.values()
    }

    #[must_use]
    pub fn sandbox(&self, id: &str) -> Option<&Sandbox> {
        self.sandboxes.get(id)
    }

    #[must_use]
    pub fn container(&self, id: &str) -> Option<&Container> {
        self.containers.get(id)
    }

    #[must_use]
    pub fn ready_sandbox(&self, pod_uid: &str) -> Option<&Sandbox> {
        self.sandboxes.get(self.ready.get(pod_uid)?.last()?)
    }

    #[must_use]
    pub fn running_container(&self, pod_uid: &str, name: &str) -> Option<&Container> {
        self.containers.get(self.running.get(&(pod_uid.to_owned(), name.to_owned()))?.last()?)
    }

    /// Number of running containers on the node.
    #[must_use]
    pub fn running_count(&self) -> usize {
        self.running.values().map(BTreeSet::len).sum()
    }

    /// Every call so far, in order of arrival.
    #[must_use]
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    #[must_use]
    pub fn count(&self, rpc: Rpc) -> usize {
        self.counts.get(&rpc).copied().unwrap_or(0)
    }

    /// Operations that a correct agent never requests, in order.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    pub(crate) fn record(&mut self, rpc: Rpc, subject: Subject, at: i64) {
        *self.counts.entry(rpc).or_default() += 1;
        self.calls.push(Call { rpc, subject, at });
    }

    pub(crate) fn clear_calls(&mut self) {
        self.calls.clear();
        self.counts.clear();
    }

    pub(crate) fn subject(&self, id: &str) -> Subject {
        let mut subject = Subject { id: id.to_owned(), ..Subject::default() };
        if let Some(container) = self.containers.get(id) {
            subject.pod_uid.clone_from(&container.pod_uid);
            subject.container = container.name().to_owned();
        } else if let Some(sandbox) = self.sandboxes.get(id) {
            subject.pod_uid = sandbox.pod_uid().to_owned();
        }
        subject
    }

    /// IDs look like containerd's, differ in their first digits, and increase, so that maps are ordered by age.
    pub(crate) fn next_id(&mut self) -> (u32, String) {
        self.made += 1;
        (self.made, format!("{:08x}{:056x}", self.made, 0))
    }
}

/// Removes `id` from the set under `key`, and the set when it is empty.
pub(crate) fn take_out<K: std::hash::Hash + Eq>(index: &mut HashMap<K, BTreeSet<String>>, key: &K, id: &str) {
    if let Some(ids) = index.get_mut(key) {
        ids.remove(id);
        if ids.is_empty() {
            index.remove(key);
        }
    }
}
