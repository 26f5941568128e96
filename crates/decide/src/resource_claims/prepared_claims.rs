//! The claims that are prepared on this node, and the pods that use them.

use std::collections::{BTreeMap, BTreeSet};

use model::{ClaimReference, PodUid, PreparedDevice};

use super::ClaimError;

/// A claim that the scheduler has allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatedClaim {
    pub reference: ClaimReference,
    /// The drivers of its devices.
    pub drivers: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimKey {
    pub namespace: String,
    pub name: String,
}

impl ClaimKey {
    #[must_use]
    pub fn of(claim: &ClaimReference) -> Self {
        Self { namespace: claim.namespace.clone(), name: claim.name.clone() }
    }
}

/// A claim that is prepared, or may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedClaim {
    pub uid: String,
    /// The pods that use it.
    pub pods: BTreeSet<PodUid>,
    /// The devices by driver. A driver without devices has not answered yet.
    pub drivers: BTreeMap<String, Vec<PreparedDevice>>,
    /// Whether this process saw all drivers succeed. Not on disk: after a restart the drivers are asked again.
    pub is_prepared: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedClaims {
    pub(super) claims: BTreeMap<ClaimKey, PreparedClaim>,
}

impl PreparedClaims {
    #[must_use]
    pub fn new(claims: BTreeMap<ClaimKey, PreparedClaim>) -> Self {
        Self { claims }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&ClaimKey, &PreparedClaim)> {
        self.claims.iter()
    }

    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<&PreparedClaim> {
        self.claims.get(&ClaimKey { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// Records that a pod uses the claims. Nothing is recorded on an error.
    ///
    /// # Errors
    /// When another claim with the name of one of them is still prepared.
    pub fn reserve(&mut self, claims: &[AllocatedClaim], pod: &PodUid) -> Result<(), ClaimError> {
        for AllocatedClaim { reference, .. } in claims {
            let other = self.claims.get(&ClaimKey::of(reference)).filter(|held| held.uid != reference.uid);
            if let Some(other) = other {
                return Err(ClaimError::OldClaim { name: reference.name.clone(), uid: other.uid.clone() });
            }
        }
        for AllocatedClaim { reference, drivers } in claims {
            let new = || PreparedClaim { uid: reference.uid.clone(), ..PreparedClaim::default() };
            let held = self.claims.entry(ClaimKey::of(reference)).or_insert_with(new);
            held.pods.insert(pod.clone());
            for driver in drivers {
                held.drivers.entry(driver.clone()).or_default();
            }
        }
        Ok(())
    }

    /// The requests to prepare claims, one per driver.
    #[must_use]
    pub fn to_prepare(&self, claims: &[AllocatedClaim]) -> BTreeMap<String, Vec<ClaimReference>> {
        let is_prepared = |claim: &ClaimReference| {
            self.claims.get(&ClaimKey::of(claim)).is_some_and(|held| held.is_prepared)
        };
        by_driver(
            claims
                .iter()
                .filter(|claim| !is_prepared(&claim.reference))
                .map(|claim| (&claim.reference, claim.drivers.iter())),
        )
    }

    /// Replaces the devices of a driver by those of its answer.
    pub fn record(&mut self, claim: &ClaimReference, driver: &str, devices: Vec<PreparedDevice>) {
        if let Some(held) = self.claims.get_mut(&ClaimKey::of(claim)) {
            held.drivers.insert(driver.to_owned(), devices);
        }
    }

    pub fn mark_prepared(&mut self, claims: &[AllocatedClaim]) {
        for claim in claims {
            if let Some(held) = self.claims.get_mut(&ClaimKey::of(&claim.reference)) {
                held.is_prepared = true;
            }
        }
    }

    /// The claims that a pod uses.
    #[must_use]
    pub fn of_pod(&self, pod: &PodUid) -> Vec<ClaimKey> {
        let used = self.claims.iter().filter(|(_, held)| held.pods.contains(pod));
        used.map(|(key, _)| key.clone()).collect()
    }

    /// The claims to unprepare when a pod ends, by driver: those that only this pod uses.
    #[must_use]
    pub fn to_unprepare(&self, pod: &PodUid) -> BTreeMap<String, Vec<ClaimReference>> {
        let only = self.claims.iter().filter(|(_, held)| held.pods.len() == 1 && held.pods.contains(pod));
        let references: Vec<_> = only.map(|(key, held)| (reference(key, held), held)).collect();
        by_driver(references.iter().map(|(reference, held)| (reference, held.drivers.keys())))
    }

    /// Removes a pod from its claims, and the claims that no other pod uses.
    pub fn release(&mut self, pod: &PodUid) {
        self.claims.retain(|_, held| !held.pods.remove(pod) || !held.pods.is_empty());
    }

    /// All pods that use a claim.
    #[must_use]
    pub fn pods(&self) -> BTreeSet<PodUid> {
        self.claims.values().flat_map(|held| held.pods.iter().cloned()).collect()
    }

    /// The number of prepared claims by driver, and of all.
    #[must_use]
    pub fn in_use(&self) -> (BTreeMap<&str, usize>, usize) {
        let mut by_driver = BTreeMap::new();
        let prepared: Vec<_> = self.claims.values().filter(|held| held.is_prepared).collect();
        for driver in prepared.iter().flat_map(|held| held.drivers.keys()) {
            *by_driver.entry(driver.as_str()).or_default() += 1;
        }
        (by_driver, prepared.len())
    }
}

fn reference(key: &ClaimKey, held: &PreparedClaim) -> ClaimReference {
    let ClaimKey { namespace, name } = key.clone();
    ClaimReference { namespace, name, uid: held.uid.clone() }
}

fn by_driver<'a>(
    claims: impl Iterator<Item = (&'a ClaimReference, impl Iterator<Item = &'a String>)>,
) -> BTreeMap<String, Vec<ClaimReference>> {
    let mut requests: BTreeMap<String, Vec<ClaimReference>> = BTreeMap::new();
    for (claim, drivers) in claims {
        for driver in drivers {
            requests.entry(driver.clone()).or_default().push(claim.clone());
        }
    }
    requests
}
