//! Rules about the runtime and its images.

use super::{Check, field};
use crate::{
    configuration::{CredentialsVerification, Images},
    gates::Gate,
};

pub(super) fn check(check: &mut Check<'_>, images: &Images) {
    check.rule(
        !images.container_runtime_endpoint.is_empty(),
        "containerRuntimeEndpoint",
        "must not be empty",
    );
    check.not_negative(images.registry_pull_qps, "registryPullQPS");
    check.not_negative(images.registry_burst, "registryBurst");
    if let Some(limit) = images.max_parallel_image_pulls {
        check.rule(limit >= 1, "maxParallelImagePulls", format!("{limit} must be 1 or more"));
        check.rule(
            limit <= 1 || !images.pulls_one_at_a_time(),
            "maxParallelImagePulls",
            format!("{limit} needs serializeImagePulls to be false"),
        );
    }
    garbage_collection(check, images);
    credentials(check, images);
}

fn garbage_collection(check: &mut Check<'_>, images: &Images) {
    let (low, high) = (images.image_gc_low_threshold_percent, images.image_gc_high_threshold_percent);
    check.in_range(high, 0..=100, "imageGCHighThresholdPercent");
    check.in_range(low, 0..=100, "imageGCLowThresholdPercent");
    check.rule(
        low < high,
        "imageGCLowThresholdPercent",
        format!("{low} must be less than imageGCHighThresholdPercent, which is {high}"),
    );
    let (minimum, maximum) = (images.image_minimum_gc_age, images.image_maximum_gc_age);
    check.rule(!minimum.is_negative(), "imageMinimumGCAge", format!("{minimum} must not be negative"));
    check.rule(!maximum.is_negative(), "imageMaximumGCAge", format!("{maximum} must not be negative"));
    check.needs_gate(Gate::ImageMaximumGCAge, !maximum.is_zero(), "imageMaximumGCAge");
    check.rule(
        maximum.is_zero() || maximum.is_negative() || maximum > minimum,
        "imageMaximumGCAge",
        format!("{maximum} must be longer than imageMinimumGCAge, which is {minimum}"),
    );
}

fn credentials(check: &mut Check<'_>, images: &Images) {
    const POLICY: &str = "imagePullCredentialsVerificationPolicy";
    const ALLOWLIST: &str = "preloadedImagesVerificationAllowlist";
    let gate = Gate::KubeletEnsureSecretPulledImages;
    let allowlist = &images.preloaded_images_verification_allowlist;
    check.needs_gate(gate, images.credentials_verification.is_some(), POLICY);
    check.needs_gate(gate, !allowlist.is_empty(), ALLOWLIST);
    if !check.enabled(gate) || allowlist.is_empty() {
        return;
    }
    if images.credentials_verification != Some(CredentialsVerification::NeverVerifyAllowlistedImages) {
        let reason = format!("needs {POLICY} to be NeverVerifyAllowlistedImages");
        return check.rule(false, ALLOWLIST, reason);
    }
    for (index, pattern) in allowlist.iter().enumerate() {
        if let Err(reason) = image_pattern(pattern) {
            check.rule_at(false, || field(ALLOWLIST).index(index), format!("{pattern:?} {reason}"));
        }
    }
}

/// An image name without tag and digest, or a prefix of names that ends in `/*`.
fn image_pattern(pattern: &str) -> Result<(), &'static str> {
    if pattern.trim() != pattern {
        return Err("must not start or end with a blank");
    }
    let prefix = pattern.strip_suffix("/*");
    let name = prefix.unwrap_or(pattern);
    if name.is_empty() {
        return Err("must at least name a registry");
    }
    if name.contains('*') {
        return Err("may have a wildcard only as \"/*\" at its end");
    }
    if prefix.is_some() {
        return Ok(());
    }
    let last = name.rsplit('/').next().unwrap_or(name);
    if name.contains('@') || last.contains(':') {
        return Err("must not have a tag or digest");
    }
    if name.split('/').skip(1).any(|part| part.is_empty() || part.chars().any(|c| c.is_ascii_uppercase())) {
        return Err("is not an image name");
    }
    Ok(())
}
