//! Content negotiation of the z-pages.

use axum::http::{HeaderMap, header};

/// Versions of the structured documents, newest first.
const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageFormat {
    Text,
    /// A structured document of this version.
    Document(Encoding, &'static str),
    NotAcceptable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Yaml,
}

/// The first supported format of the `Accept` header. A structured document needs group, version and kind.
pub(super) fn page_format(headers: &HeaderMap, kind: &str) -> PageFormat {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let clauses: Vec<&str> =
        values.flat_map(|value| value.split(',')).map(str::trim).filter(|part| !part.is_empty()).collect();
    if clauses.is_empty() {
        return PageFormat::Text;
    }
    clauses.iter().find_map(|clause| acceptable(clause, kind)).unwrap_or(PageFormat::NotAcceptable)
}

fn acceptable(clause: &str, kind: &str) -> Option<PageFormat> {
    let mut parts = clause.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default();
    let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
    let parameter = |name: &str| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    match media {
        "text/plain" | "text/*" | "*/*" => Some(PageFormat::Text),
        "application/json" | "application/yaml" => {
            let encoding = if media == "application/json" { Encoding::Json } else { Encoding::Yaml };
            let is_named = parameter("g") == Some(super::GROUP) && parameter("as") == Some(kind);
            let version = VERSIONS.into_iter().find(|version| parameter("v") == Some(version));
            version.filter(|_| is_named).map(|version| PageFormat::Document(encoding, version))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structured_document_requires_group_version_and_kind() {
        let cases = [
            ("", PageFormat::Text),
            ("text/plain", PageFormat::Text),
            ("*/*", PageFormat::Text),
            ("application/json", PageFormat::NotAcceptable),
            (
                "application/json;v=v1beta1;g=config.k8s.io;as=Statusz",
                PageFormat::Document(Encoding::Json, "v1beta1"),
            ),
            (
                "application/json;g=config.k8s.io;v=v1alpha1;as=Statusz",
                PageFormat::Document(Encoding::Json, "v1alpha1"),
            ),
            (
                "application/yaml;v=v1beta1;g=config.k8s.io;as=Statusz",
                PageFormat::Document(Encoding::Yaml, "v1beta1"),
            ),
            ("application/yaml", PageFormat::NotAcceptable),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Flagz", PageFormat::NotAcceptable),
            ("application/json;v=v2;g=config.k8s.io;as=Statusz, text/plain", PageFormat::Text),
            ("image/png", PageFormat::NotAcceptable),
        ];
        for (accept, expected) in cases {
            let mut headers = HeaderMap::new();
            if !accept.is_empty() {
                headers.insert(header::ACCEPT, accept.parse().unwrap());
            }
            assert_eq!(page_format(&headers, "Statusz"), expected, "{accept}");
        }
    }
}
