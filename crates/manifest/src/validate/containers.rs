//! Lists of containers, and what all containers have in common.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Container;

use super::checker::Checker;
use super::{Context, env, formats, mounts, ports, probes, resources, restarts, security};
use crate::path::Path;

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];

/// Checks init and regular containers.
pub(super) fn check(context: &Context<'_>, check: &mut Checker) {
    let spec = context.spec;
    let at = Path::root().field("spec");
    let regular = at.field("containers");
    if spec.containers.is_empty() {
        check.required(&regular, "");
    }
    let mut names = BTreeSet::new();
    for (at, container) in regular.items(&spec.containers) {
        common(container, context, &at, check);
        unique_name(&container.name, &mut names, &at, check);
        run_time(container, context, &at, check);
        restarts::regular_policy(container, context.restarts, &at, check);
    }
    ports::host_ports_do_not_conflict(regular.items(&spec.containers), check);
    let init = at.field("initContainers");
    for (at, container) in init.items(spec.init_containers.as_deref().unwrap_or_default()) {
        common(container, context, &at, check);
        unique_name(&container.name, &mut names, &at, check);
        restarts::init_policy(container, context.restarts, &at, check);
        // Init containers run one by one, so only their own ports can conflict.
        ports::host_ports_do_not_conflict(std::iter::once((at.clone(), container)), check);
        if container.restart_policy.as_deref() == Some("Always") {
            run_time(container, context, &at, check);
        } else {
            no_run_time(container, &at, check);
        }
    }
}

/// A pull policy must be one of the three.
pub(super) fn pull_policy(policy: Option<&str>, at: &Path, check: &mut Checker) {
    check.one_of(at, policy.unwrap_or_default(), &PULL_POLICIES);
}

fn common(container: &Container, context: &Context<'_>, at: &Path, check: &mut Checker) {
    let name = at.field("name");
    if check.require_text(&name, &container.name) {
        check.format(&name, &container.name, formats::dns_label(&container.name));
    }
    let image = container.image.as_deref().unwrap_or_default();
    if check.require_text(&at.field("image"), image) && image.trim() != image {
        check.invalid(&at.field("image"), image, "must not have leading or trailing whitespace");
    }
    let policy = container.termination_message_policy.as_deref().unwrap_or_default();
    check.one_of(&at.field("terminationMessagePolicy"), policy, &["File", "FallbackToLogsOnError"]);
    ports::check(container.ports.as_deref().unwrap_or_default(), context, &at.field("ports"), check);
    env::check(container, context, at, check);
    mounts::check(container, context, at, check);
    pull_policy(container.image_pull_policy.as_deref(), &at.field("imagePullPolicy"), check);
    resources::check_container(container.resources.as_ref(), context, &at.field("resources"), check);
    restarts::resize_policy(container, context, &at.field("resizePolicy"), check);
    security::check_container(container, context, &at.field("securityContext"), check);
}

fn unique_name<'a>(name: &'a str, names: &mut BTreeSet<&'a str>, at: &Path, check: &mut Checker) {
    if !name.is_empty() && !names.insert(name) {
        check.duplicate(&at.field("name"), name);
    }
}

/// What only containers that keep running may have.
fn run_time(container: &Container, context: &Context<'_>, at: &Path, check: &mut Checker) {
    if let Some(lifecycle) = &container.lifecycle {
        probes::lifecycle(lifecycle, context, &at.field("lifecycle"), check);
    }
    probes::liveness(container.liveness_probe.as_ref(), &at.field("livenessProbe"), check);
    probes::readiness(container.readiness_probe.as_ref(), &at.field("readinessProbe"), check);
    probes::startup(container.startup_probe.as_ref(), &at.field("startupProbe"), check);
}

fn no_run_time(container: &Container, at: &Path, check: &mut Checker) {
    for (field, is_set) in [
        ("lifecycle", container.lifecycle.is_some()),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
    ] {
        if is_set {
            let detail = "may not be set for init containers without restartPolicy=Always";
            check.forbidden(&at.field(field), detail);
        }
    }
}
