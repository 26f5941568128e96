//! Allocates ranges of user IDs for pods with a user namespace.
//!
//! Every such pod gets an exclusive range, so that its root user is unprivileged on the host and in other pods. The
//! range is recorded before use, in upstream's format (`pods/<uid>/userns`).

use std::collections::HashMap;

use model::{IdPool, IdRange, PodUid, RuntimeHandler};
use serde_json::Value;
use values::fnv::Fnv32a;

/// Ranges start at multiples of this, whatever their length.
const ALIGNMENT: u32 = 65_536;

///
/// # Errors
/// When the ranges would not be aligned, would include root, or would not suffice for `max_pods`.
pub fn check_pool(pool: &IdPool, max_pods: i64) -> Result<(), String> {
    let IdPool { first, total, per_pod } = *pool;
    if per_pod == 0 || per_pod % ALIGNMENT != 0 {
        return Err(format!("kubelet user namespace length {per_pod} is not a multiple of {ALIGNMENT}"));
    }
    if first % per_pod != 0 {
        return Err(format!("kubelet user assigned ID {first} is not a multiple of {per_pod}"));
    }
    if first < per_pod {
        return Err(format!("kubelet user assigned ID {first} must be greater or equal to {per_pod}"));
    }
    if total % per_pod != 0 {
        return Err(format!("kubelet user assigned IDs length {total} is not a multiple of {per_pod}"));
    }
    if i64::from(total / per_pod) < max_pods {
        return Err(format!("kubelet user assigned IDs are not enough to support {max_pods} pods"));
    }
    Ok(())
}

/// Checks that a runtime handler supports user namespaces.
///
/// # Errors
/// When it does not, or the runtime does not have the handler.
pub fn check_handler(handlers: &[RuntimeHandler], handler: &str) -> Result<(), String> {
    let problem = if handler.is_empty() {
        "can't set `spec.hostUsers: false`, runtime does not support user namespaces".to_owned()
    } else {
        format!(
            "can't set `spec.hostUsers: false`, RuntimeClass handler {handler:?} does not support user namespaces"
        )
    };
    match handlers.iter().find(|found| found.name == handler) {
        Some(found) if found.user_namespaces => Ok(()),
        None if !handlers.is_empty() => Err(format!("{problem}: the handler {handler:?} is not known")),
        Some(_) | None => Err(problem),
    }
}

/// The ranges in use, by pod.
#[derive(Clone, Debug)]
pub struct IdRangeAllocations {
    pool: IdPool,
    by_index: HashMap<u32, PodUid>,
    by_pod: HashMap<PodUid, u32>,
}

impl IdRangeAllocations {
    /// The pool must have passed [`check_pool`].
    pub fn new(pool: IdPool) -> Self {
        Self { pool, by_index: HashMap::new(), by_pod: HashMap::new() }
    }

    pub fn range_of(&self, uid: &PodUid) -> Option<IdRange> {
        self.by_pod.get(uid).map(|index| self.range(*index))
    }

    /// Adopts a range that was recorded earlier.
    ///
    /// # Errors
    /// When the range is not in the pool, or belongs to another pod.
    pub fn record(&mut self, uid: &PodUid, range: IdRange) -> Result<(), String> {
        let IdRange { first, length } = range;
        let per_pod = self.pool.per_pod;
        if length != per_pod {
            return Err(format!("wrong user namespace length {length}"));
        }
        if first % per_pod != 0 {
            return Err(format!("wrong user namespace offset specified {first}"));
        }
        let index = first.checked_sub(self.pool.first).map(|offset| offset / per_pod);
        let Some(index) = index.filter(|index| *index < self.count()) else {
            return Err(format!("id {first} is out of range"));
        };
        if self.by_pod.get(uid).is_some_and(|used| *used != index) {
            return Err(format!("different user namespace range already used by pod {:?}", uid.as_str()));
        }
        match self.by_index.get(&index) {
            Some(owner) if owner != uid => {
                Err(format!("range picked for pod {:?} already taken", uid.as_str()))
            }
            Some(_) | None => {
                self.take(uid, index);
                Ok(())
            }
        }
    }

    /// Allocates a free range. The search starts at a hash of the pod UID, so that released IDs are not reused at once.
    ///
    /// # Errors
    /// When all ranges are in use.
    pub fn allocate(&mut self, uid: &PodUid) -> Result<IdRange, String> {
        if let Some(range) = self.range_of(uid) {
            return Ok(range);
        }
        let count = self.count().max(1);
        let start = Fnv32a::hash(uid.as_str().as_bytes()) % count;
        let free = (0..count)
            .map(|step| u32::try_from((u64::from(start) + u64::from(step)) % u64::from(count)).unwrap_or(0))
            .find(|index| !self.by_index.contains_key(index));
        let Some(index) = free else {
            return Err("could not find an empty slot to allocate a user namespace".to_owned());
        };
        self.take(uid, index);
        Ok(self.range(index))
    }

    pub fn release(&mut self, uid: &PodUid) {
        if let Some(index) = self.by_pod.remove(uid) {
            self.by_index.remove(&index);
        }
    }

    fn take(&mut self, uid: &PodUid, index: u32) {
        self.by_index.insert(index, uid.clone());
        self.by_pod.insert(uid.clone(), index);
    }

    fn count(&self) -> u32 {
        self.pool.total / self.pool.per_pod
    }

    fn range(&self, index: u32) -> IdRange {
        let IdPool { first, per_pod, .. } = self.pool;
        IdRange { first: first.saturating_add(index.saturating_mul(per_pod)), length: per_pod }
    }
}

/// The content of the `userns` file.
pub fn format_mappings(range: IdRange) -> String {
    let IdRange { first, length } = range;
    let mapping = format!(r#"[{{"hostId":{first},"containerId":0,"length":{length}}}]"#);
    format!(r#"{{"uidMappings":{mapping},"gidMappings":{mapping}}}"#)
}

/// Parses the `userns` file; `None` for an empty one.
///
/// # Errors
/// When the file is not in the expected format.
pub fn parse_mappings(text: &str) -> Result<Option<IdRange>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let mappings: Value = serde_json::from_str(text)
        .map_err(|error| format!("invalid user namespace mappings file: {error}"))?;
    let list =
        |name: &str| mappings.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let [uid_mapping] = list("uidMappings") else {
        return Err("invalid user namespace configuration: no more than one mapping allowed.".to_owned());
    };
    if list("gidMappings") != std::slice::from_ref(uid_mapping) {
        let problem = "invalid user namespace configuration: GID and UID mapping should be identical";
        return Err(problem.to_owned());
    }
    let number =
        |name: &str| uid_mapping.get(name).and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
    match (number("hostId"), number("containerId"), number("length")) {
        (Some(first), Some(0), Some(length)) => Ok(Some(IdRange { first, length })),
        (_, Some(_), _) => Err("invalid user namespace configuration: UID 0 must be mapped".to_owned()),
        (_, None, _) => Err("invalid user namespace mappings file: ids are missing".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POOL: IdPool = IdPool { first: 65_536, total: 3 * 65_536, per_pod: 65_536 };

    fn uid(text: &str) -> PodUid {
        text.into()
    }

    #[test]
    fn ranges_are_unique_and_reusable() {
        let mut allocations = IdRangeAllocations::new(POOL);
        let mut ranges: Vec<u32> =
            ["a", "b", "c"].map(|name| allocations.allocate(&uid(name)).unwrap().first).to_vec();
        assert_eq!(allocations.allocate(&uid("a")).unwrap().first, ranges[0], "a pod keeps its range");
        ranges.sort_unstable();
        assert_eq!(ranges, [65_536, 131_072, 196_608]);
        assert!(allocations.allocate(&uid("d")).unwrap_err().contains("could not find an empty slot"));
        allocations.release(&uid("b"));
        allocations.allocate(&uid("d")).unwrap();
        assert_eq!(allocations.range_of(&uid("b")), None);
    }

    #[test]
    fn rejects_invalid_recorded_ranges() {
        let mut allocations = IdRangeAllocations::new(POOL);
        let range = |first| IdRange { first, length: 65_536 };
        allocations.record(&uid("a"), range(131_072)).unwrap();
        allocations.record(&uid("a"), range(131_072)).unwrap();
        for (name, range, problem) in [
            ("b", range(131_072), "already taken"),
            ("a", range(65_536), "different user namespace range"),
            ("b", range(0), "out of range"),
            ("b", range(4 * 65_536), "out of range"),
            ("b", range(65_537), "wrong user namespace offset"),
            ("b", IdRange { first: 65_536, length: 1 }, "wrong user namespace length"),
        ] {
            let error = allocations.record(&uid(name), range).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
        assert_ne!(allocations.allocate(&uid("b")).unwrap().first, 131_072);
    }

    #[test]
    fn mappings_have_upstream_format() {
        let range = IdRange { first: 131_072, length: 65_536 };
        let text = r#"{"uidMappings":[{"hostId":131072,"containerId":0,"length":65536}],"gidMappings":[{"hostId":131072,"containerId":0,"length":65536}]}"#;
        assert_eq!(format_mappings(range), text);
        assert_eq!(parse_mappings(text), Ok(Some(range)));
        assert_eq!(parse_mappings(""), Ok(None));
        for bad in [
            "{",
            r#"{"uidMappings":[],"gidMappings":[]}"#,
            &text.replacen("\"containerId\":0", "\"containerId\":1", 2),
            &text.replacen("131072", "65536", 1),
        ] {
            assert!(parse_mappings(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rejects_invalid_pools() {
        assert_eq!(check_pool(&IdPool::default(), 110), Ok(()));
        for (first, total, per_pod, problem) in [
            (0, 65_536, 65_536, "must be greater or equal"),
            (65_537, 65_536, 65_536, "is not a multiple"),
            (65_536, 65_537, 65_536, "is not a multiple"),
            (65_536, 65_536, 1000, "is not a multiple of 65536"),
            (65_536, 65_536, 65_536, "not enough to support 110 pods"),
        ] {
            let error = check_pool(&IdPool { first, total, per_pod }, 110).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn handler_must_support_user_namespaces() {
        let handler = |name: &str, user_namespaces| RuntimeHandler {
            name: name.into(),
            user_namespaces,
            ..RuntimeHandler::default()
        };
        let handlers = [handler("", true), handler("old", false)];
        assert_eq!(check_handler(&handlers, ""), Ok(()));
        assert_eq!(
            check_handler(&handlers, "old").unwrap_err(),
            "can't set `spec.hostUsers: false`, RuntimeClass handler \"old\" does not support user namespaces"
        );
        assert!(check_handler(&handlers, "new").unwrap_err().ends_with("the handler \"new\" is not known"));
        assert_eq!(
            check_handler(&[], "").unwrap_err(),
            "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
        );
    }

    proptest! {
        #[test]
        fn pods_never_share_ids(steps in proptest::collection::vec((0_u8..2, 0_u8..6), 0..40)) {
            let mut allocations = IdRangeAllocations::new(POOL);
            for (release, pod) in steps {
                let uid = uid(&pod.to_string());
                if release == 1 { allocations.release(&uid) } else { let _ = allocations.allocate(&uid); }
                let mut ranges: Vec<u32> = allocations.by_pod.values().copied().collect();
                ranges.sort_unstable();
                let count = ranges.len();
                ranges.dedup();
                prop_assert_eq!(ranges.len(), count);
                prop_assert_eq!(allocations.by_index.len(), count);
            }
        }
    }
}
