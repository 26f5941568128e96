//! The verb and subresources that a node API request is authorized with.

/// The verb of requests to the streaming paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamingVerb {
    /// Always `create`: a WebSocket starts with GET, but running a command must not be covered by read permission.
    #[default]
    Create,
    /// By their method, like upstream.
    ByMethod,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestAttributes {
    /// Empty for methods without a Kubernetes verb.
    pub verb: &'static str,
    /// Subresources of the node in the order of their checks; permission for one is enough.
    pub subresources: &'static [&'static str],
}

const PROXY: &[&str] = &["proxy"];

/// Subresources by path prefix; everything else is `proxy`.
const PREFIXES: &[(&str, &[&str])] = &[
    ("/stats", &["stats"]),
    ("/metrics", &["metrics"]),
    ("/logs", &["log"]),
    ("/checkpoint", &["checkpoint"]),
    ("/statusz", &["statusz"]),
    ("/flagz", &["configz"]),
    ("/pods", &["pods", "proxy"]),
    ("/runningpods", &["pods", "proxy"]),
    ("/healthz", &["healthz", "proxy"]),
    ("/configz", &["configz", "proxy"]),
];

/// Paths that run something in a pod or connect to it.
const STREAMING: &[&str] = &["/exec", "/attach", "/portForward", "/run"];

pub fn request_attributes(method: &str, path: &str, streaming: StreamingVerb) -> RequestAttributes {
    let found = PREFIXES.iter().find(|(prefix, _)| is_below(path, prefix));
    let subresources = found.map_or(PROXY, |(_, subresources)| subresources);
    let streams = STREAMING.iter().any(|prefix| is_below(path, prefix));
    let verb = match (streaming, method) {
        (StreamingVerb::Create, _) if streams => "create",
        (_, "GET") => "get",
        (_, "POST") => "create",
        (_, "PUT") => "update",
        (_, "PATCH") => "patch",
        (_, "DELETE") => "delete",
        _ => "",
    };
    RequestAttributes { verb, subresources }
}

/// Whether a path is the prefix or below it.
fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subresources(path: &str) -> &'static [&'static str] {
        request_attributes("GET", path, StreamingVerb::Create).subresources
    }

    #[test]
    fn maps_paths_to_subresources() {
        let cases: [(&str, &[&str]); 32] = [
            ("/stats", &["stats"]),
            ("/stats/summary", &["stats"]),
            ("/statsfoo", &["proxy"]),
            ("/metrics", &["metrics"]),
            ("/metrics/", &["metrics"]),
            ("/metrics/cadvisor", &["metrics"]),
            ("/metrics/resource", &["metrics"]),
            ("/metrics/probes", &["metrics"]),
            ("/metrics/slis", &["metrics"]),
            ("/metricsx", &["proxy"]),
            ("/logs", &["log"]),
            ("/logs/syslog", &["log"]),
            ("/checkpoint/ns/pod/c", &["checkpoint"]),
            ("/statusz", &["statusz"]),
            ("/flagz", &["configz"]),
            ("/pods", &["pods", "proxy"]),
            ("/pods/", &["pods", "proxy"]),
            ("/podsx", &["proxy"]),
            ("/runningpods/", &["pods", "proxy"]),
            ("/healthz", &["healthz", "proxy"]),
            ("/healthz/syncloop", &["healthz", "proxy"]),
            ("/healthzz", &["proxy"]),
            ("/configz", &["configz", "proxy"]),
            ("/exec/ns/pod/c", &["proxy"]),
            ("/run/ns/pod/c", &["proxy"]),
            ("/attach/ns/pod/c", &["proxy"]),
            ("/portForward/ns/pod", &["proxy"]),
            ("/containerLogs/ns/pod/c", &["proxy"]),
            ("/debug/pprof/profile", &["proxy"]),
            ("/debug/flags/v", &["proxy"]),
            ("/", &["proxy"]),
            ("/nothing", &["proxy"]),
        ];
        for (path, expected) in cases {
            assert_eq!(subresources(path), expected, "{path}");
        }
    }

    #[test]
    fn maps_methods_to_verbs() {
        let cases = [
            ("GET", "get"),
            ("POST", "create"),
            ("PUT", "update"),
            ("PATCH", "patch"),
            ("DELETE", "delete"),
            ("HEAD", ""),
            ("OPTIONS", ""),
        ];
        for (method, verb) in cases {
            for rule in [StreamingVerb::Create, StreamingVerb::ByMethod] {
                assert_eq!(request_attributes(method, "/pods", rule).verb, verb, "{method}");
            }
            assert_eq!(request_attributes(method, "/exec/n/p/c", StreamingVerb::ByMethod).verb, verb);
        }
    }

    #[test]
    fn websocket_get_requires_create_permission() {
        for path in ["/exec/n/p/c", "/attach/n/p/c", "/portForward/n/p", "/run/n/p/c"] {
            for method in ["GET", "POST", "HEAD"] {
                assert_eq!(request_attributes(method, path, StreamingVerb::Create).verb, "create", "{path}");
            }
        }
        let logs = request_attributes("GET", "/containerLogs/n/p/c", StreamingVerb::Create);
        assert_eq!(logs.verb, "get");
    }
}
