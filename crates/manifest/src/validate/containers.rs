//! Rules for the lists of containers and for the common fields of all containers.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Container;

use super::field::Field;
use super::{Context, env, formats, mounts, ports, probes, resources, restarts, security};

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];

pub(super) fn check(context: &Context<'_>) {
    let spec = context.spec;
    let at = context.spec_field();
    let regular = at.field("containers");
    if spec.containers.is_empty() {
        regular.required("");
    }
    let mut names = BTreeSet::new();
    for (at, container) in regular.items(&spec.containers) {
        check_common_fields(container, context, &at);
        check_unique_name(&container.name, &mut names, &at);
        check_probes_and_hooks(container, context, &at);
        restarts::check_regular_policy(container, context.restarts, &at);
    }
    ports::check_host_port_conflicts(regular.items(&spec.containers));
    for (at, container) in at.list("initContainers", &spec.init_containers) {
        check_common_fields(container, context, &at);
        check_unique_name(&container.name, &mut names, &at);
        restarts::check_init_policy(container, context.restarts, &at);
        // Init containers run one after the other, so only ports of the same container can conflict.
        ports::check_host_port_conflicts(std::iter::once((at.clone(), container)));
        if container.restart_policy.as_deref() == Some("Always") {
            check_probes_and_hooks(container, context, &at);
        } else {
            check_no_probes_and_hooks(container, &at);
        }
    }
}

pub(super) fn check_pull_policy(policy: Option<&str>, at: &Field<'_>) {
    at.one_of(policy.unwrap_or_default(), &PULL_POLICIES);
}

fn check_common_fields(container: &Container, context: &Context<'_>, at: &Field<'_>) {
    at.field("name").required_format(&container.name, formats::dns_label);
    let image = container.image.as_deref().unwrap_or_default();
    if at.field("image").require(image) && image.trim() != image {
        at.field("image").invalid(image, "must not have leading or trailing whitespace");
    }
    let policy = container.termination_message_policy.as_deref().unwrap_or_default();
    at.field("terminationMessagePolicy").one_of(policy, &["File", "FallbackToLogsOnError"]);
    ports::check(container, context, at);
    env::check(container, context, at);
    mounts::check(container, context, at);
    check_pull_policy(container.image_pull_policy.as_deref(), &at.field("imagePullPolicy"));
    at.if_set("resources", &container.resources, |own, at| resources::check_container(own, context, at));
    restarts::check_resize_policy(container, context, at);
    at.if_set("securityContext", &container.security_context, |own, at| {
        security::check_container(own, context, at);
    });
}

fn check_unique_name<'a>(name: &'a str, names: &mut BTreeSet<&'a str>, at: &Field<'_>) {
    if !name.is_empty() && !names.insert(name) {
        at.field("name").duplicate(name);
    }
}

/// Checks fields that only regular containers and sidecars may have.
fn check_probes_and_hooks(container: &Container, context: &Context<'_>, at: &Field<'_>) {
    at.if_set("lifecycle", &container.lifecycle, |hooks, at| probes::check_lifecycle(hooks, context, at));
    at.if_set("livenessProbe", &container.liveness_probe, probes::check_liveness_or_startup);
    at.if_set("readinessProbe", &container.readiness_probe, probes::check_readiness);
    at.if_set("startupProbe", &container.startup_probe, probes::check_liveness_or_startup);
}

fn check_no_probes_and_hooks(container: &Container, at: &Field<'_>) {
    let fields = [
        ("lifecycle", container.lifecycle.is_some()),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
    ];
    at.forbid_set(&fields, "may not be set for init containers without restartPolicy=Always");
}
