//! What the agent says of itself: `/configz`, `/statusz`, `/flagz`.

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

use crate::answers::json as json_answer;
use negotiation::{Form, Language, form};

const NAME: &str = "kubelet";
/// A version of the documents that upstream wants to be left.
const OLD_VERSION: &str = "v1alpha1";
const GROUP: &str = "config.k8s.io";
const WARNING: &str =
    "Warning: for people who look for a problem; its form may change and no program should read it.";
const DAY_NAMES: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// What the agent says of itself.
#[derive(Clone)]
pub struct About {
    /// The configuration in force, as a `KubeletConfiguration` document.
    pub config: Arc<Value>,
    /// Every flag with its value.
    pub flags: Arc<BTreeMap<String, String>>,
    /// The Kubernetes version it stands in for, without `v`.
    pub version: String,
    /// The language it is made in, where upstream names Go's version.
    pub made_with: String,
    /// When it started.
    pub started_at: Timestamp,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The gate `ComponentStatusz`.
    pub shows_status: bool,
    /// The gate `ComponentFlagz`.
    pub shows_flags: bool,
}

pub(crate) fn routes(about: About) -> Router {
    let mut router = Router::new().route("/configz", get(configz));
    if about.shows_status {
        router = router.route("/statusz", get(statusz));
    }
    if about.shows_flags {
        router = router.route("/flagz", get(flagz));
    }
    router.with_state(about)
}

async fn configz(State(about): State<About>) -> Response {
    json_answer(&json!({"kubeletconfig": &*about.config}))
}

async fn statusz(State(about): State<About>, headers: HeaderMap) -> Response {
    let up = about.clock.now().since(about.started_at).as_secs();
    let emulated: Vec<&str> = about.version.split('.').take(2).collect();
    let emulated = emulated.join(".");
    let mut paths = vec!["/configz", "/debug", "/flagz", "/healthz", "/metrics"];
    paths.retain(|path| *path != "/flagz" || about.shows_flags);
    match form(&headers, "Statusz") {
        Form::Text => text(format!(
            "\n{NAME} statusz\n{WARNING}\n\nStarted: {}\nUp: {} hr {:02} min {:02} sec\nGo version: {}\nBinary version: {}\nEmulation version: {emulated}\nPaths: {}\n",
            date(about.started_at),
            up / 3600,
            up / 60 % 60,
            up % 60,
            about.made_with,
            about.version,
            paths.join(" "),
        )),
        Form::Document(language, version) => structured(
            "Statusz",
            (language, version),
            json!({
                "startTime": about.started_at.to_api_time(),
                "uptimeSeconds": up,
                "goVersion": about.made_with,
                "binaryVersion": about.version,
                "emulationVersion": emulated,
                "paths": paths,
            }),
        ),
        Form::NotAcceptable => not_acceptable(),
    }
}

async fn flagz(State(about): State<About>, headers: HeaderMap) -> Response {
    match form(&headers, "Flagz") {
        Form::Text => {
            let mut page = format!("\n{NAME} flagz\n{WARNING}\n");
            for (name, value) in &*about.flags {
                let _ = writeln!(page, "{name}: {value}");
            }
            text(page)
        }
        Form::Document(language, version) => {
            structured("Flagz", (language, version), json!({"flags": &*about.flags}))
        }
        Form::NotAcceptable => not_acceptable(),
    }
}

fn text(page: String) -> Response {
    page.into_response()
}

/// A document of a version that the client named, with a word about one that will go.
fn structured(kind: &str, (language, version): (Language, &str), content: Value) -> Response {
    let mut document = json!({
        "kind": kind, "apiVersion": format!("{GROUP}/{version}"), "metadata": {"name": NAME},
    });
    if let (Some(document), Value::Object(content)) = (document.as_object_mut(), content) {
        document.extend(content);
    }
    let (media, mut answer) = match language {
        Language::Json => ("application/json", json_answer(&document)),
        Language::Yaml => ("application/yaml", to_yaml(&document).into_response()),
    };
    let mut set = |name, value: String| {
        if let Ok(value) = value.parse() {
            answer.headers_mut().insert(name, value);
        }
    };
    set(header::CONTENT_TYPE, format!("{media};g={GROUP};v={version};as={kind}"));
    if version == OLD_VERSION {
        let endpoint = kind.to_lowercase();
        set(
            header::WARNING,
            format!(
                "299 - \"This version of the {endpoint} endpoint is deprecated. Please use a newer version.\""
            ),
        );
    }
    answer
}

fn not_acceptable() -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "only the following media types are accepted: application/json, application/yaml, text/plain",
        "reason": "NotAcceptable", "code": 406,
    });
    (StatusCode::NOT_ACCEPTABLE, json_answer(&status)).into_response()
}

/// `Mon Nov 16 07:59:00 UTC 2026`.
fn date(time: Timestamp) -> String {
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
    fn documents_are_written_as_they_are_asked_for() {
        let content = || json!({"flags": {"v": "2"}});
        let new = structured("Flagz", (Language::Yaml, "v1beta1"), content());
        let header = |answer: &Response, name| {
            answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
        };
        let media = "application/yaml;g=config.k8s.io;v=v1beta1;as=Flagz";
        assert_eq!(header(&new, header::CONTENT_TYPE).as_deref(), Some(media));
        assert_eq!(header(&new, header::WARNING), None);
        let old = structured("Flagz", (Language::Json, "v1alpha1"), content());
        assert!(
            header(&old, header::WARNING).unwrap().starts_with("299 - \"This version of the flagz endpoint")
        );
    }

    #[test]
    fn dates_are_as_date_prints_them() {
        assert_eq!(date(Timestamp::from_secs(1_794_815_940)), "Mon Nov 16 07:59:00 UTC 2026");
        assert_eq!(date(Timestamp::from_secs(0)), "Thu Jan  1 00:00:00 UTC 1970");
    }
}
