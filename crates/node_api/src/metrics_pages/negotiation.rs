use agent::metrics::Format;

/// The format that an `Accept` header prefers; text for one that leaves it open.
pub(super) fn format(accept: &str) -> Format {
    let weight = |matches: fn(&Choice<'_>) -> bool| {
        choices(accept).filter(matches).map(|choice| choice.weight).reduce(f64::max)
    };
    let open = weight(|choice| {
        choice.name == "application/openmetrics-text"
            && matches!(choice.version, None | Some("1.0.0" | "0.0.1"))
    });
    let text = weight(|choice| matches!(choice.name, "text/plain" | "text/*"));
    match (open, text) {
        (Some(open), Some(text)) if open > 0.0 && open >= text => Format::OpenMetrics,
        (Some(open), None) if open > 0.0 => Format::OpenMetrics,
        (Some(_) | None, Some(_) | None) => Format::Text,
    }
}

/// Whether an `Accept-Encoding` header names gzip.
pub(super) fn accepts_gzip(accept: &str) -> bool {
    choices(accept).any(|choice| choice.name == "gzip" && choice.weight > 0.0)
}

struct Choice<'a> {
    name: &'a str,
    version: Option<&'a str>,
    weight: f64,
}

fn choices(header: &str) -> impl Iterator<Item = Choice<'_>> {
    header.split(',').map(|choice| {
        let mut parts = choice.split(';').map(str::trim);
        let mut read = Choice { name: parts.next().unwrap_or_default(), version: None, weight: 1.0 };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim() {
                "q" => read.weight = value.trim().parse().unwrap_or(0.0),
                "version" => read.version = Some(value.trim().trim_matches('"')),
                _ => {}
            }
        }
        read
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_the_default_and_open_metrics_is_for_who_prefers_it() {
        for (accept, expected) in [
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/plain", Format::Text),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("application/openmetrics-text; version=0.0.1", Format::OpenMetrics),
            ("application/openmetrics-text; version=9.0.0", Format::Text),
            ("application/openmetrics-text;q=0", Format::Text),
            ("application/openmetrics-text;version=1.0.0;q=0.2,text/plain;version=0.0.4;q=0.5", Format::Text),
            (
                "application/vnd.google.protobuf;q=0.7,application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
                Format::OpenMetrics,
            ),
            ("nonsense;;q=x,,", Format::Text),
        ] {
            assert_eq!(format(accept), expected, "{accept}");
        }
    }

    #[test]
    fn gzip_is_used_only_if_it_is_asked_for() {
        for (accept, expected) in
            [("", false), ("gzip", true), ("deflate, gzip;q=0.5", true), ("gzip;q=0", false), ("br", false)]
        {
            assert_eq!(accepts_gzip(accept), expected, "{accept}");
        }
    }
}
