//! Configuration fields without effect in Podward, so that setting one produces a notice.

use std::collections::BTreeSet;

use crate::{KubeletConfiguration, configuration::OutputRouting};

/// Top-level fields that have an effect upstream, but not yet in Podward. A new field is listed until code acts on it.
static FIELDS_NOT_IMPLEMENTED: &[&str] =
    &["contentType", "enableContentionProfiling", "showHiddenMetricsForVersion"];

/// Fields that have no effect upstream either.
static FIELDS_WITHOUT_EFFECT_UPSTREAM: &[&str] =
    &["hairpinMode", "iptablesDropBit", "iptablesMasqueradeBit", "streamingConnectionIdleTimeout"];

/// Paths below a top-level field with an effect that have no effect.
const SUBFIELDS_WITHOUT_EFFECT: &[&str] = &["logging.flushFrequency", "logging.options", "logging.vmodule"];

/// Whether a configuration field, given as a dotted path, has an effect in Podward.
pub(crate) fn has_effect(path: &str) -> bool {
    let top = path.split('.').next().unwrap_or(path);
    let is_below = |parent: &&str| {
        path.strip_prefix(*parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    !FIELDS_NOT_IMPLEMENTED.contains(&top)
        && !FIELDS_WITHOUT_EFFECT_UPSTREAM.contains(&top)
        && !SUBFIELDS_WITHOUT_EFFECT.iter().any(is_below)
}

/// The fields without effect in Podward that are set to a value other than their default.
pub fn fields_without_effect(config: &KubeletConfiguration, set_fields: &BTreeSet<String>) -> Vec<String> {
    let (effective, default) = (config.to_json(), KubeletConfiguration::file_defaults().to_json());
    set_fields
        .iter()
        .filter(|field| FIELDS_NOT_IMPLEMENTED.contains(&field.as_str()))
        .filter(|field| effective.get(field.as_str()) != default.get(field.as_str()))
        .cloned()
        .collect()
}

/// Notices about set subfields that have no effect although their top-level field has one.
pub(crate) fn subfields_without_effect(config: &KubeletConfiguration) -> Vec<String> {
    let logging = &config.logs.logging;
    let is_set = |routing: &OutputRouting| routing.split_stream || !routing.info_buffer_size.is_zero();
    let notices = [
        (
            !logging.vmodule.is_empty(),
            "logging.vmodule has no effect; logging.verbosity applies to all files",
        ),
        (
            is_set(&logging.options.text) || is_set(&logging.options.json),
            "logging.options has no effect; every log line is written to standard error immediately",
        ),
    ];
    notices.into_iter().filter(|(applies, _)| *applies).map(|(_, notice)| notice.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_contain_existing_fields_only() {
        let known = KubeletConfiguration::field_names();
        for field in FIELDS_NOT_IMPLEMENTED.iter().chain(FIELDS_WITHOUT_EFFECT_UPSTREAM) {
            assert!(known.contains(field), "{field}");
        }
    }

    #[test]
    fn reports_set_fields_without_effect() {
        let mut config = KubeletConfiguration::file_defaults();
        config.pods.max_pods = 5;
        config.server.enable_contention_profiling = true;
        config.server.enable_system_log_query = true;
        let set =
            ["maxPods", "enableContentionProfiling", "hairpinMode", "registerNode", "enableSystemLogQuery"];
        let set = set.into_iter().map(str::to_owned).collect();
        assert_eq!(fields_without_effect(&config, &set), ["enableContentionProfiling"]);
    }

    #[test]
    fn reports_set_subfields_without_effect() {
        let table = [
            ("{}", None),
            ("{evictionHard: {memory.available: 1Gi}}", None),
            ("{logging: {verbosity: 3, format: json, flushFrequency: 1s}}", None),
            ("{logging: {vmodule: [{filePattern: a, verbosity: 1}]}}", Some("logging.vmodule ")),
            ("{logging: {options: {json: {splitStream: true}}}}", Some("logging.options ")),
            ("{logging: {options: {text: {infoBufferSize: 1Ki}}}}", Some("logging.options ")),
        ];
        for (text, expected) in table {
            let document = document::parse(text.as_bytes()).unwrap().remove(0);
            let (mut config, errors) = KubeletConfiguration::decode(&document);
            assert_eq!(errors, [], "{text}");
            config.reservations.apply_default_thresholds();
            let found = subfields_without_effect(&config);
            assert_eq!(found.len(), usize::from(expected.is_some()), "{text}: {found:?}");
            assert!(found.iter().all(|notice| notice.starts_with(expected.unwrap_or_default())), "{found:?}");
        }
    }
}
