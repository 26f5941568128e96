//! The health of the devices that pods have through claims.
//!
//! The stage `health_streams` records what drivers report, and the stage `status` reads it for the status of pods. The last
//! reports are on disk, so that a restart of the agent does not make all devices unknown until their drivers report again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use decide::resource_claims::device_health::{DeviceHealthTable, DeviceName};
use decide::resource_claims::health_file;
use decide::resource_claims::pod_status::{ClaimHealthInputs, claim_health, pods_of_devices};
use k8s_openapi::api::core::v1::ResourceStatus;
use model::{DeviceHealthReport, Pod, PodUid};
use parking_lot::Mutex;
use ports::clock::Clock;
use ports::host::checkpoints::Checkpoints;
use ports::host::pod_folders::FileError;
use timing::KeySender;
use tokio::time::Instant;

use super::resource_claims::ResourceClaims;
use crate::pipeline::resource_state_file::ResourceStateFile;

/// File of the last reports, in upstream's format.
pub const HEALTH_STATE: &str = "dra_health_state";

/// The reports of an earlier run. A file that cannot be used is logged and ignored: drivers report again.
pub async fn restore(files: &dyn Checkpoints) -> DeviceHealthTable {
    let content = match files.load(HEALTH_STATE).await {
        Ok(Some(content)) => content,
        Ok(None) => return DeviceHealthTable::default(),
        Err(error) => {
            tracing::warn!(%error, source = %error.source, "failed to read the health of claimed devices, continuing without it");
            return DeviceHealthTable::default();
        }
    };
    health_file::decode(&content).unwrap_or_else(|error| {
        tracing::warn!(file = HEALTH_STATE, %error, "the health of claimed devices is unusable, continuing without it");
        DeviceHealthTable::default()
    })
}

/// The gate `ResourceHealthStatusMessage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthMessages {
    Shown,
    Hidden,
}

pub struct DeviceHealthDeps {
    pub claims: Arc<ResourceClaims>,
    pub files: Arc<dyn Checkpoints>,
    pub clock: Arc<dyn Clock>,
    pub messages: HealthMessages,
    /// Receives the pods whose devices have changed.
    pub listener: KeySender<PodUid>,
    pub restored: DeviceHealthTable,
}

pub struct DeviceHealth {
    claims: Arc<ResourceClaims>,
    state: Mutex<State>,
    file: ResourceStateFile,
    clock: Arc<dyn Clock>,
    messages: HealthMessages,
    listener: KeySender<PodUid>,
}

struct State {
    table: DeviceHealthTable,
    /// The number of open streams by driver. Several instances of a driver report the same devices.
    streams: BTreeMap<String, usize>,
}

impl DeviceHealth {
    #[must_use]
    pub fn new(deps: DeviceHealthDeps) -> Self {
        let DeviceHealthDeps { claims, files, clock, messages, listener, restored } = deps;
        let state = Mutex::new(State { table: restored, streams: BTreeMap::new() });
        Self { claims, state, file: ResourceStateFile::new(files, HEALTH_STATE), clock, messages, listener }
    }

    /// Health of the claimed devices of each container of a pod.
    #[must_use]
    pub fn of_pod(&self, pod: &Pod) -> BTreeMap<String, Vec<ResourceStatus>> {
        self.claims.read(|prepared| {
            let state = self.state.lock();
            let inputs = ClaimHealthInputs {
                prepared,
                health: &state.table,
                shows_messages: self.messages == HealthMessages::Shown,
                now: self.clock.now(),
            };
            claim_health(pod, inputs)
        })
    }

    pub(super) fn stream_opened(&self, driver: &str) {
        *self.state.lock().streams.entry(driver.to_owned()).or_default() += 1;
    }

    /// The last stream of a driver takes its reports with it.
    pub(super) fn stream_ended(&self, driver: &str) {
        self.change(|state| {
            let left = state.streams.remove(driver).unwrap_or_default().saturating_sub(1);
            if left == 0 {
                return state.table.erase(driver);
            }
            state.streams.insert(driver.to_owned(), left);
            BTreeSet::new()
        });
    }

    pub(super) fn record(&self, driver: &str, reports: Vec<DeviceHealthReport>) {
        let now = self.clock.now();
        self.change(|state| state.table.update(driver, reports, now));
    }

    /// Makes devices unknown that were not reported for too long.
    pub(super) fn expire(&self) {
        let now = self.clock.now();
        self.change(|state| state.table.expire(now));
    }

    /// When [`Self::expire`] has something to do.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        let expiry = self.state.lock().table.next_expiry()?;
        // A report counts up to its time.
        let wait = expiry.since(self.clock.now()) + std::time::Duration::from_millis(1);
        Some(Instant::now() + wait)
    }

    /// Waits for the next change that is not saved.
    pub(super) async fn changed(&self) {
        self.file.changed().await;
    }

    pub(super) async fn flush(&self) -> Result<(), FileError> {
        self.file.flush(|| health_file::encode(&self.state.lock().table)).await
    }

    fn change(&self, change: impl FnOnce(&mut State) -> BTreeSet<DeviceName>) {
        let changed = {
            let mut state = self.state.lock();
            let changed = change(&mut state);
            if changed.is_empty() {
                return;
            }
            self.file.mark_changed();
            changed
        };
        for pod in self.claims.read(|prepared| pods_of_devices(prepared, &changed)) {
            // Fails only when the listening stage has ended.
            self.listener.send(pod);
        }
    }
}
