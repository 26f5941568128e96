//! Content negotiation by `Accept` and `Accept-Encoding`.

use model::metrics_text::Format;

/// The preferred format of an `Accept` header; Prometheus text if it expresses no preference.
pub(super) fn format(accept: &str) -> Format {
    let weight = |matches: fn(&MediaRange<'_>) -> bool| {
        media_ranges(accept).filter(matches).map(|range| range.weight).reduce(f64::max)
    };
    let open = weight(|range| {
        range.name == "application/openmetrics-text"
            && matches!(range.version, None | Some("1.0.0" | "0.0.1"))
    });
    let text = weight(|range| matches!(range.name, "text/plain" | "text/*"));
    match (open, text) {
        (Some(open), Some(text)) if open > 0.0 && open >= text => Format::OpenMetrics,
        (Some(open), None) if open > 0.0 => Format::OpenMetrics,
        (Some(_) | None, Some(_) | None) => Format::Text,
    }
}

/// Whether an `Accept-Encoding` header names gzip.
pub(super) fn accepts_gzip(accept: &str) -> bool {
    media_ranges(accept).any(|range| range.name == "gzip" && range.weight > 0.0)
}

struct MediaRange<'a> {
    name: &'a str,
    version: Option<&'a str>,
    weight: f64,
}

fn media_ranges(header: &str) -> impl Iterator<Item = MediaRange<'_>> {
    header.split(',').map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let mut range = MediaRange { name: parts.next().unwrap_or_default(), version: None, weight: 1.0 };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim() {
                "q" => range.weight = value.trim().parse().unwrap_or(0.0),
                "version" => range.version = Some(value.trim().trim_matches('"')),
                _ => {}
            }
        }
        range
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_open_metrics_only_when_preferred() {
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
    fn uses_gzip_only_when_accepted() {
        for (accept, expected) in
            [("", false), ("gzip", true), ("deflate, gzip;q=0.5", true), ("gzip;q=0", false), ("br", false)]
        {
            assert_eq!(accepts_gzip(accept), expected, "{accept}");
        }
    }
}
