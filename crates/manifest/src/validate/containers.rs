//! Rules for the lists of containers and for the common fields of all containers.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Container;

use super::checker::Checker;
use super::{Context, env, formats, mounts, ports, probes, resources, restarts, security};
use crate::path::Path;

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];

pub(super) fn check(context: &Context<'_>, checker: &mut Checker) {
    let spec = context.spec;
    let path = Path::root().field("spec");
    let regular = path.field("containers");
    if spec.containers.is_empty() {
        checker.required(&regular, "");
    }
    let mut names = BTreeSet::new();
    for (path, container) in regular.items(&spec.containers) {
        check_common_fields(container, context, &path, checker);
        check_unique_name(&container.name, &mut names, &path, checker);
        check_probes_and_hooks(container, context, &path, checker);
        restarts::check_regular_policy(container, context.restarts, &path, checker);
    }
    ports::check_host_port_conflicts(regular.items(&spec.containers), checker);
    let init = path.field("initContainers");
    for (path, container) in init.items(spec.init_containers.as_deref().unwrap_or_default()) {
        check_common_fields(container, context, &path, checker);
        check_unique_name(&container.name, &mut names, &path, checker);
        restarts::check_init_policy(container, context.restarts, &path, checker);
        // Init containers run one after the other, so only ports of the same container can conflict.
        ports::check_host_port_conflicts(std::iter::once((path.clone(), container)), checker);
        if container.restart_policy.as_deref() == Some("Always") {
            check_probes_and_hooks(container, context, &path, checker);
        } else {
            check_no_probes_and_hooks(container, &path, checker);
        }
    }
}

pub(super) fn check_pull_policy(policy: Option<&str>, path: &Path, checker: &mut Checker) {
    checker.one_of(path, policy.unwrap_or_default(), &PULL_POLICIES);
}

fn check_common_fields(container: &Container, context: &Context<'_>, path: &Path, checker: &mut Checker) {
    let name = path.field("name");
    if checker.require_text(&name, &container.name) {
        checker.format(&name, &container.name, formats::dns_label(&container.name));
    }
    let image = container.image.as_deref().unwrap_or_default();
    if checker.require_text(&path.field("image"), image) && image.trim() != image {
        checker.invalid(&path.field("image"), image, "must not have leading or trailing whitespace");
    }
    let policy = container.termination_message_policy.as_deref().unwrap_or_default();
    checker.one_of(&path.field("terminationMessagePolicy"), policy, &["File", "FallbackToLogsOnError"]);
    ports::check(container.ports.as_deref().unwrap_or_default(), context, &path.field("ports"), checker);
    env::check(container, context, path, checker);
    mounts::check(container, context, path, checker);
    check_pull_policy(container.image_pull_policy.as_deref(), &path.field("imagePullPolicy"), checker);
    resources::check_container(container.resources.as_ref(), context, &path.field("resources"), checker);
    restarts::check_resize_policy(container, context, &path.field("resizePolicy"), checker);
    security::check_container(container, context, &path.field("securityContext"), checker);
}

fn check_unique_name<'a>(name: &'a str, names: &mut BTreeSet<&'a str>, path: &Path, checker: &mut Checker) {
    if !name.is_empty() && !names.insert(name) {
        checker.duplicate(&path.field("name"), name);
    }
}

/// Checks fields that only regular containers and sidecars may have.
fn check_probes_and_hooks(container: &Container, context: &Context<'_>, path: &Path, checker: &mut Checker) {
    if let Some(lifecycle) = &container.lifecycle {
        probes::check_lifecycle(lifecycle, context, &path.field("lifecycle"), checker);
    }
    probes::check_liveness(container.liveness_probe.as_ref(), &path.field("livenessProbe"), checker);
    probes::check_readiness(container.readiness_probe.as_ref(), &path.field("readinessProbe"), checker);
    probes::check_startup(container.startup_probe.as_ref(), &path.field("startupProbe"), checker);
}

fn check_no_probes_and_hooks(container: &Container, path: &Path, checker: &mut Checker) {
    for (field, is_set) in [
        ("lifecycle", container.lifecycle.is_some()),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
    ] {
        if is_set {
            let detail = "may not be set for init containers without restartPolicy=Always";
            checker.forbidden(&path.field(field), detail);
        }
    }
}
