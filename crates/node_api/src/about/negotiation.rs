//! In which form a client wants an answer about the agent.

use axum::http::{HeaderMap, header};

/// The versions of the structured form, newest first.
const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// For people.
    Text,
    /// A document of this version.
    Document(Language, &'static str),
    /// None that there is.
    NotAcceptable,
}

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Json,
    Yaml,
}

/// The first form of the Accept header that there is. A document has to be asked for by group, version and kind.
pub(super) fn form(headers: &HeaderMap, kind: &str) -> Form {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let wanted: Vec<&str> =
        values.flat_map(|value| value.split(',')).map(str::trim).filter(|part| !part.is_empty()).collect();
    if wanted.is_empty() {
        return Form::Text;
    }
    wanted.iter().find_map(|clause| acceptable(clause, kind)).unwrap_or(Form::NotAcceptable)
}

fn acceptable(clause: &str, kind: &str) -> Option<Form> {
    let mut parts = clause.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default();
    let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
    let parameter = |name: &str| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    match media {
        "text/plain" | "text/*" | "*/*" => Some(Form::Text),
        "application/json" | "application/yaml" => {
            let language = if media == "application/json" { Language::Json } else { Language::Yaml };
            let named = parameter("g") == Some(super::GROUP) && parameter("as") == Some(kind);
            let version = VERSIONS.into_iter().find(|version| parameter("v") == Some(version));
            version.filter(|_| named).map(|version| Form::Document(language, version))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_had_by_its_full_name_only() {
        let cases = [
            ("", Form::Text),
            ("text/plain", Form::Text),
            ("*/*", Form::Text),
            ("application/json", Form::NotAcceptable),
            (
                "application/json;v=v1beta1;g=config.k8s.io;as=Statusz",
                Form::Document(Language::Json, "v1beta1"),
            ),
            (
                "application/json;g=config.k8s.io;v=v1alpha1;as=Statusz",
                Form::Document(Language::Json, "v1alpha1"),
            ),
            (
                "application/yaml;v=v1beta1;g=config.k8s.io;as=Statusz",
                Form::Document(Language::Yaml, "v1beta1"),
            ),
            ("application/yaml", Form::NotAcceptable),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Flagz", Form::NotAcceptable),
            ("application/json;v=v2;g=config.k8s.io;as=Statusz, text/plain", Form::Text),
            ("image/png", Form::NotAcceptable),
        ];
        for (accept, expected) in cases {
            let mut headers = HeaderMap::new();
            if !accept.is_empty() {
                headers.insert(header::ACCEPT, accept.parse().unwrap());
            }
            assert_eq!(form(&headers, "Statusz"), expected, "{accept}");
        }
    }
}
