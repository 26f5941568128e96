//! Prepares the ResourceClaims of a pod before its sandbox is created, and unprepares them after its containers have stopped.
//!
//! The state is on disk before a driver is called, and a claim is removed from it after its drivers have undone their work.

mod answers;

use std::sync::Arc;
use std::time::Duration;

use decide::resource_claims::checks::check;
use decide::resource_claims::container_devices::{self, ContainerClaim};
use decide::resource_claims::references::{ExtendedResources, pod_claims};
use decide::resource_claims::{AllocatedClaim, ClaimError, ClaimKey, PreparedClaims, state_file};
use k8s_openapi::api::core::v1::Container;
use model::{ClaimReference, Pod, PodUid};
use parking_lot::Mutex;
use ports::api::ApiError;
use ports::api::resource_claims::ApiResourceClaims;
use ports::host::checkpoints::Checkpoints;
use ports::host::pod_folders::FileError;
use ports::plugins::dra::DraError;
use timing::{KeyedLock, KeyedLockGuard};
use tokio::time::Instant;

use super::dra_drivers::{DraDrivers, NotRegistered};
use crate::metrics::{Collect, Metrics, Page, to_gauge};
use answers::{AnswerError, recorded};

/// Checkpoint of the prepared claims, in upstream's format.
pub const CLAIM_STATE: &str = "dra_manager_state";
/// Longer than the call of another pod that holds the claim.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
const PREPARE: &str = "NodePrepareResources";
const UNPREPARE: &str = "NodeUnprepareResources";

/// Why claims cannot be prepared or unprepared. The texts are upstream's.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClaimsError {
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error("fetch ResourceClaim {name}: {source}")]
    Fetch { name: String, source: ApiError },
    #[error(transparent)]
    NotRegistered(#[from] NotRegistered),
    #[error("{call}: {source}")]
    Call { call: &'static str, source: DraError },
    #[error("{call} {answer}")]
    Answer { call: &'static str, answer: AnswerError },
    #[error("another pod still waits for a driver of ResourceClaim {0}")]
    Locked(String),
    #[error("{0}")]
    State(String),
}

#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error(
        "create ResourceClaim cache: GetOrCreate() on checkpoint state: failed to get checkpoint dra_manager_state: {0}"
    )]
    File(state_file::StateFileError),
    #[error("create ResourceClaim cache: {}", .0.text())]
    Access(FileError),
}

/// Reads the state of an earlier run, or writes the first one.
///
/// # Errors
/// When the file is damaged or cannot be accessed. Without it, drivers would never unprepare what they prepared.
pub async fn restore(files: &dyn Checkpoints) -> Result<PreparedClaims, RestoreError> {
    if let Some(content) = files.load(CLAIM_STATE).await.map_err(RestoreError::Access)? {
        return state_file::decode(&content).map_err(RestoreError::File);
    }
    let claims = PreparedClaims::default();
    files.save(CLAIM_STATE, state_file::encode(&claims)).await.map_err(RestoreError::Access)?;
    Ok(claims)
}

pub struct ResourceClaimsDeps {
    pub api: Arc<dyn ApiResourceClaims>,
    pub drivers: Arc<DraDrivers>,
    pub files: Arc<dyn Checkpoints>,
    pub metrics: Arc<Metrics>,
    pub extended: ExtendedResources,
}

pub struct ResourceClaims {
    api: Arc<dyn ApiResourceClaims>,
    drivers: Arc<DraDrivers>,
    files: Arc<dyn Checkpoints>,
    metrics: Arc<Metrics>,
    extended: ExtendedResources,
    state: Mutex<PreparedClaims>,
    /// One operation at a time per claim, because pods may share it.
    locks: KeyedLock<ClaimKey>,
    /// Held during a write, so that an older state never replaces a newer one.
    writing: tokio::sync::Mutex<()>,
}

impl ResourceClaims {
    #[must_use]
    pub fn new(deps: ResourceClaimsDeps, restored: PreparedClaims) -> Self {
        let ResourceClaimsDeps { api, drivers, files, metrics, extended } = deps;
        let (state, locks, writing) = (Mutex::new(restored), KeyedLock::default(), Default::default());
        Self { api, drivers, files, metrics, extended, state, locks, writing }
    }

    /// Prepares all claims of a pod. Succeeds without a call if they are prepared already.
    ///
    /// # Errors
    /// When a claim may not be used, or a driver fails. What other drivers prepared stays recorded.
    pub async fn prepare(&self, pod: &Pod) -> Result<(), ClaimsError> {
        let started = Instant::now();
        let result = self.prepare_claims(pod).await;
        self.metrics.dynamic_resources.ended("PrepareResources", started.elapsed(), result.is_err());
        result
    }

    async fn prepare_claims(&self, pod: &Pod) -> Result<(), ClaimsError> {
        let claims = self.allocated_claims(pod).await?;
        if claims.is_empty() {
            return Ok(());
        }
        let _locked = self.lock(claims.iter().map(|claim| ClaimKey::of(&claim.reference))).await?;
        self.state.lock().reserve(&claims, &pod.uid)?;
        self.save().await?;
        let requests = self.state.lock().to_prepare(&claims);
        for (driver, claims) in requests {
            let prepared = self.prepare_on(&driver, &claims).await;
            self.save().await?;
            prepared?;
        }
        self.state.lock().mark_prepared(&claims);
        Ok(())
    }

    /// The claims of a pod in the order of their keys, each once. All of their drivers are registered.
    async fn allocated_claims(&self, pod: &Pod) -> Result<Vec<AllocatedClaim>, ClaimsError> {
        let mut allocated = Vec::new();
        for claim in pod_claims(pod, self.extended)? {
            let object = self.api.resource_claim(pod.namespace(), &claim.name).await;
            let object = object.map_err(|source| ClaimsError::Fetch { name: claim.name.clone(), source })?;
            let checked = check(pod, &claim, &object)?;
            for driver in &checked.drivers {
                self.drivers.driver(driver)?;
            }
            allocated.push(checked);
        }
        allocated.sort_by(|one, other| one.reference.cmp(&other.reference));
        allocated.dedup();
        Ok(allocated)
    }

    async fn prepare_on(&self, driver: &str, claims: &[ClaimReference]) -> Result<(), ClaimsError> {
        let handle = self.drivers.driver(driver)?;
        let results = self.drivers.prepare(&handle, claims).await;
        let results = results.map_err(|source| ClaimsError::Call { call: PREPARE, source })?;
        let mut state = self.state.lock();
        let taken = recorded(claims, results, |claim, devices| state.record(claim, driver, devices));
        taken.map_err(|answer| ClaimsError::Answer { call: PREPARE, answer })
    }

    /// Ends the use of all claims of a pod.
    ///
    /// # Errors
    /// When a driver fails. The pod then still uses its claims.
    pub async fn unprepare(&self, pod: &PodUid) -> Result<(), ClaimsError> {
        let started = Instant::now();
        let result = self.unprepare_claims(pod).await;
        self.metrics.dynamic_resources.ended("UnprepareResources", started.elapsed(), result.is_err());
        result
    }

    async fn unprepare_claims(&self, pod: &PodUid) -> Result<(), ClaimsError> {
        let keys = self.state.lock().of_pod(pod);
        if keys.is_empty() {
            return Ok(());
        }
        let _locked = self.lock(keys.into_iter()).await?;
        let requests = self.state.lock().to_unprepare(pod);
        for (driver, claims) in requests {
            let handle = self.drivers.driver(&driver)?;
            let results = self.drivers.unprepare(&handle, &claims).await;
            let results = results.map_err(|source| ClaimsError::Call { call: UNPREPARE, source })?;
            let taken = recorded(&claims, results, |_, ()| {});
            taken.map_err(|answer| ClaimsError::Answer { call: UNPREPARE, answer })?;
        }
        self.state.lock().release(pod);
        self.save().await
    }

    /// The names of a container's devices for the runtime.
    ///
    /// # Errors
    /// When a claim of the container is not prepared.
    pub fn cdi_ids(&self, pod: &Pod, container: &Container) -> Result<Vec<String>, ClaimError> {
        container_devices::cdi_ids(&self.state.lock(), pod, container, self.extended)
    }

    /// Reads the claims of a container. Unknown claims are left out.
    pub fn read_container<T>(
        &self,
        pod: &Pod,
        container: &Container,
        read: impl Fn(&ContainerClaim<'_>) -> T,
    ) -> Vec<T> {
        let state = self.state.lock();
        let claims = container_devices::known_container_claims(&state, pod, container, self.extended);
        claims.iter().map(read).collect()
    }

    /// Reads the claims, which are locked meanwhile.
    pub fn read<T>(&self, read: impl FnOnce(&PreparedClaims) -> T) -> T {
        read(&self.state.lock())
    }

    /// All pods that use a claim.
    #[must_use]
    pub fn pods(&self) -> Vec<PodUid> {
        self.state.lock().pods().into_iter().collect()
    }

    /// Locks claims in the order of their keys, so that two pods never wait for each other.
    async fn lock(
        &self,
        keys: impl Iterator<Item = ClaimKey>,
    ) -> Result<Vec<KeyedLockGuard<ClaimKey>>, ClaimsError> {
        let mut guards = Vec::new();
        for key in keys {
            let guard = self.locks.acquire(&key, LOCK_TIMEOUT).await;
            guards.push(guard.ok_or(ClaimsError::Locked(key.name))?);
        }
        Ok(guards)
    }

    async fn save(&self) -> Result<(), ClaimsError> {
        let _writing = self.writing.lock().await;
        let content = state_file::encode(&self.state.lock());
        self.files.save(CLAIM_STATE, content).await.map_err(|error| ClaimsError::State(error.text()))
    }
}

impl Collect for ResourceClaims {
    fn collect(&self, page: &mut Page) {
        let state = self.state.lock();
        let (by_driver, all) = state.in_use();
        let rows = by_driver.into_iter().chain([("<any>", all)]);
        page.gauges(
            ("dra_resource_claims_in_use", "Prepared ResourceClaims, by driver; <any> counts each once"),
            ["driver_name"],
            rows.map(|(driver, count)| ([driver], to_gauge(count))),
        );
    }
}

#[cfg(test)]
mod tests;
