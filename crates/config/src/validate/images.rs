//! Rules for the container runtime and its images.

use super::{Checker, field};
use crate::{
    configuration::{CredentialsVerification, Images},
    gates::Gate,
};

pub(super) fn check(checker: &mut Checker<'_>, images: &Images) {
    checker.rule(
        !images.container_runtime_endpoint.is_empty(),
        "containerRuntimeEndpoint",
        "must not be empty",
    );
    checker.not_negative(images.registry_pull_qps, "registryPullQPS");
    checker.not_negative(images.registry_burst, "registryBurst");
    if let Some(limit) = images.max_parallel_image_pulls {
        checker.rule(limit >= 1, "maxParallelImagePulls", format!("{limit} must be 1 or more"));
        checker.rule(
            limit <= 1 || !images.pulls_one_at_a_time(),
            "maxParallelImagePulls",
            format!("{limit} requires serializeImagePulls to be false"),
        );
    }
    check_garbage_collection(checker, images);
    check_credentials(checker, images);
}

fn check_garbage_collection(checker: &mut Checker<'_>, images: &Images) {
    let (low, high) = (images.image_gc_low_threshold_percent, images.image_gc_high_threshold_percent);
    checker.in_range(high, 0..=100, "imageGCHighThresholdPercent");
    checker.in_range(low, 0..=100, "imageGCLowThresholdPercent");
    checker.rule(
        low < high,
        "imageGCLowThresholdPercent",
        format!("{low} must be less than imageGCHighThresholdPercent, which is {high}"),
    );
    let (minimum, maximum) = (images.image_minimum_gc_age, images.image_maximum_gc_age);
    checker.rule(!minimum.is_negative(), "imageMinimumGCAge", format!("{minimum} must not be negative"));
    checker.rule(!maximum.is_negative(), "imageMaximumGCAge", format!("{maximum} must not be negative"));
    checker.requires_gate(Gate::ImageMaximumGCAge, !maximum.is_zero(), "imageMaximumGCAge");
    checker.rule(
        maximum.is_zero() || maximum.is_negative() || maximum > minimum,
        "imageMaximumGCAge",
        format!("{maximum} must be greater than imageMinimumGCAge, which is {minimum}"),
    );
}

fn check_credentials(checker: &mut Checker<'_>, images: &Images) {
    const POLICY: &str = "imagePullCredentialsVerificationPolicy";
    const ALLOWLIST: &str = "preloadedImagesVerificationAllowlist";
    let gate = Gate::KubeletEnsureSecretPulledImages;
    let allowlist = &images.preloaded_images_verification_allowlist;
    checker.requires_gate(gate, images.credentials_verification.is_some(), POLICY);
    checker.requires_gate(gate, !allowlist.is_empty(), ALLOWLIST);
    if !checker.enabled(gate) || allowlist.is_empty() {
        return;
    }
    if images.credentials_verification != Some(CredentialsVerification::NeverVerifyAllowlistedImages) {
        let reason = format!("requires {POLICY} to be NeverVerifyAllowlistedImages");
        return checker.rule(false, ALLOWLIST, reason);
    }
    for (index, pattern) in allowlist.iter().enumerate() {
        if let Err(reason) = image_pattern(pattern) {
            checker.rule_at(false, || field(ALLOWLIST).index(index), format!("{pattern:?} {reason}"));
        }
    }
}

/// Accepts an image name without tag and digest, or a prefix of image names that ends in `/*`.
fn image_pattern(pattern: &str) -> Result<(), &'static str> {
    if pattern.trim() != pattern {
        return Err("must not start or end with whitespace");
    }
    let prefix = pattern.strip_suffix("/*");
    let name = prefix.unwrap_or(pattern);
    if name.is_empty() {
        return Err("must contain at least a registry");
    }
    if name.contains('*') {
        return Err("may contain a wildcard only as \"/*\" at its end");
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
