//! What the API server would refuse.
use crate::defaults;
use crate::path::Path;
use crate::quantity::Quantity;
use k8s_openapi::api::core::v1::Pod;
/// Problems of one pod: where, and why.
pub(crate) type Findings = Vec<(Path, String)>;
/// Quantities that cannot be read.
pub(crate) fn quantities(pod: &mut Pod) -> Findings {
    let mut findings = Vec::new();
    defaults::each_quantity(pod, &mut |at, _, text| {
        if let Err(error) = Quantity::parse(&text.0) {
            findings.push((at.clone(), format!("Invalid value: {:?}: {error}", text.0)));
        }
    });
    findings
}
pub(crate) fn pod(_pod: &Pod) -> Findings {
    Vec::new()
}
