//! The z-pages about the agent itself: `/configz`, `/statusz`, `/flagz`.

mod negotiation;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use model::Timestamp;
use model::yaml::to_yaml;
use ports::clock::Clock;
use serde_json::{Value, json};

use crate::responses::json as json_response;
use negotiation::{Encoding, PageFormat, page_format};

const COMPONENT: &str = "kubelet";
/// A deprecated version of the documents.
const DEPRECATED_VERSION: &str = "v1alpha1";
const GROUP: &str = "config.k8s.io";
const WARNING: &str =
    "Warning: for debugging only. The format may change at any time, so programs should not parse it.";
const DAY_NAMES: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

#[derive(Clone)]
pub struct ZPagesDeps {
    /// The configuration in force, as a `KubeletConfiguration` document.
    pub config: Arc<Value>,
    /// Values of all flags.
    pub flags: Arc<BTreeMap<String, String>>,
    /// The Kubernetes version, without `v`.
    pub version: String,
    /// Shown as `goVersion`.
    pub go_version: String,
    pub started_at: Timestamp,
    pub clock: Arc<dyn Clock>,
    /// The gate `ComponentStatusz`.
    pub shows_status: bool,
    /// The gate `ComponentFlagz`.
    pub shows_flags: bool,
}

pub(crate) fn routes(deps: ZPagesDeps) -> Router {
    let mut router = Router::new().route("/configz", get(configz));
    if deps.shows_status {
        router = router.route("/statusz", get(statusz));
    }
    if deps.shows_flags {
        router = router.route("/flagz", get(flagz));
    }
    router.with_state(deps)
}

async fn configz(State(deps): State<ZPagesDeps>) -> Response {
    json_response(&json!({"kubeletconfig": &*deps.config}))
}

async fn statusz(State(deps): State<ZPagesDeps>, headers: HeaderMap) -> Response {
    let uptime = deps.clock.now().since(deps.started_at).as_secs();
    let minor_version: Vec<&str> = deps.version.split('.').take(2).collect();
    let minor_version = minor_version.join(".");
    let mut paths = vec!["/configz", "/debug", "/flagz", "/healthz", "/metrics"];
    paths.retain(|path| *path != "/flagz" || deps.shows_flags);
    match page_format(&headers, "Statusz") {
        PageFormat::Text => text(format!(
            "\n{COMPONENT} statusz\n{WARNING}\n\nStarted: {}\nUp: {} hr {:02} min {:02} sec\nGo version: {}\nBinary version: {}\nEmulation version: {minor_version}\nPaths: {}\n",
            format_date(deps.started_at),
            uptime / 3600,
            uptime / 60 % 60,
            uptime % 60,
            deps.go_version,
            deps.version,
            paths.join(" "),
        )),
        PageFormat::Document(encoding, version) => structured(
            "Statusz",
            (encoding, version),
            json!({
                "startTime": deps.started_at.to_api_time(),
                "uptimeSeconds": uptime,
                "goVersion": deps.go_version,
                "binaryVersion": deps.version,
                "emulationVersion": minor_version,
                "paths": paths,
            }),
        ),
        PageFormat::NotAcceptable => not_acceptable(),
    }
}

async fn flagz(State(deps): State<ZPagesDeps>, headers: HeaderMap) -> Response {
    match page_format(&headers, "Flagz") {
        PageFormat::Text => {
            let mut page = format!("\n{COMPONENT} flagz\n{WARNING}\n");
            for (name, value) in &*deps.flags {
                let _ = writeln!(page, "{name}: {value}");
            }
            text(page)
        }
        PageFormat::Document(encoding, version) => {
            structured("Flagz", (encoding, version), json!({"flags": &*deps.flags}))
        }
        PageFormat::NotAcceptable => not_acceptable(),
    }
}

fn text(page: String) -> Response {
    page.into_response()
}

/// A document of the given version, with a warning header if that version is deprecated.
fn structured(kind: &str, (encoding, version): (Encoding, &str), content: Value) -> Response {
    let mut document = json!({
        "kind": kind, "apiVersion": format!("{GROUP}/{version}"), "metadata": {"name": COMPONENT},
    });
    if let (Some(document), Value::Object(content)) = (document.as_object_mut(), content) {
        document.extend(content);
    }
    let (media, mut response) = match encoding {
        Encoding::Json => ("application/json", json_response(&document)),
        Encoding::Yaml => ("application/yaml", to_yaml(&document).into_response()),
    };
    let mut set = |name, value: String| {
        if let Ok(value) = value.parse() {
            response.headers_mut().insert(name, value);
        }
    };
    set(header::CONTENT_TYPE, format!("{media};g={GROUP};v={version};as={kind}"));
    if version == DEPRECATED_VERSION {
        let endpoint = kind.to_lowercase();
        set(
            header::WARNING,
            format!(
                "299 - \"This version of the {endpoint} endpoint is deprecated. Please use a newer version.\""
            ),
        );
    }
    response
}

fn not_acceptable() -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "only the following media types are accepted: application/json, application/yaml, text/plain",
        "reason": "NotAcceptable", "code": 406,
    });
    (StatusCode::NOT_ACCEPTABLE, json_response(&status)).into_response()
}

/// The format of date(1): `Mon Nov 16 07:59:00 UTC 2026`.
fn format_date(time: Timestamp) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let text = time.to_rfc3339();
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    let month = part(5..7).parse::<usize>().ok().and_then(|month| MONTHS.get(month.checked_sub(1)?));
    let days = time.as_nanos().div_euclid(86_400_000_000_000).rem_euclid(7);
    let day = usize::try_from(days).ok().and_then(|day| DAY_NAMES.get(day));
    let (day, month) = (day.unwrap_or(&"").to_owned(), month.unwrap_or(&"").to_owned());
    format!("{day} {month} {:>2} {} UTC {}", part(8..10).trim_start_matches('0'), part(11..19), part(0..4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structured_page_follows_requested_encoding_and_version() {
        let content = || json!({"flags": {"v": "2"}});
        let new = structured("Flagz", (Encoding::Yaml, "v1beta1"), content());
        let header = |response: &Response, name| {
            response.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
        };
        let media = "application/yaml;g=config.k8s.io;v=v1beta1;as=Flagz";
        assert_eq!(header(&new, header::CONTENT_TYPE).as_deref(), Some(media));
        assert_eq!(header(&new, header::WARNING), None);
        let old = structured("Flagz", (Encoding::Json, "v1alpha1"), content());
        assert!(
            header(&old, header::WARNING).unwrap().starts_with("299 - \"This version of the flagz endpoint")
        );
    }

    #[test]
    fn formats_dates_as_date_command() {
        assert_eq!(format_date(Timestamp::from_secs(1_794_815_940)), "Mon Nov 16 07:59:00 UTC 2026");
        assert_eq!(format_date(Timestamp::from_secs(0)), "Thu Jan  1 00:00:00 UTC 1970");
    }
}
