//! Comparison of two agents' pages.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::normalise::Names;
use crate::page::{self, Family};
use crate::run::Pages;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    /// One of `family NAME`, `series NAME{labels}`, `value NAME{labels}`, `field PATH`, `value PATH`.
    pub(crate) what: String,
    ours: String,
    theirs: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {}: podward {}, upstream {}", self.what, self.ours, self.theirs)
    }
}

pub(crate) fn page(path: &str, ours: &Pages, theirs: &Pages) -> Result<Vec<Difference>> {
    let (ours, theirs) = (Side::of(ours)?, Side::of(theirs)?);
    if path == "/stats/summary" {
        return Ok(fields(&ours.fields()?, &theirs.fields()?));
    }
    let values = path != "/metrics";
    Ok(families(&ours.families(path)?, &theirs.families(path)?, values))
}

/// One agent's pages with IDs replaced by names.
struct Side<'a> {
    pages: &'a Pages,
    names: Names,
}

impl<'a> Side<'a> {
    fn of(pages: &'a Pages) -> Result<Self> {
        let text = |path: &str| pages.get(path).map(String::as_str).with_context(|| format!("no {path}"));
        let summary: Value = serde_json::from_str(text("/stats/summary")?).context("parse /stats/summary")?;
        let names = Names::of(&summary, &page::parse(text("/metrics/cadvisor")?)?);
        Ok(Self { pages, names })
    }

    fn families(&self, path: &str) -> Result<BTreeMap<String, Family>> {
        let text = self.pages.get(path).with_context(|| format!("no {path}"))?;
        let mut families = page::parse(text)?;
        for family in families.values_mut() {
            let series = std::mem::take(&mut family.series).into_iter();
            let shown = |(labels, value): (page::Labels, _)| {
                let labels =
                    labels.into_iter().map(|(name, value)| (name, self.names.shown(&value))).collect();
                (labels, value)
            };
            family.series = series.map(shown).collect();
        }
        Ok(families)
    }

    /// Every field of the summary by its path.
    fn fields(&self) -> Result<BTreeMap<String, Value>> {
        let text = self.pages.get("/stats/summary").context("no /stats/summary")?;
        let mut fields = BTreeMap::new();
        flatten("", &serde_json::from_str(text)?, &mut fields);
        Ok(fields.into_iter().map(|(path, value)| (self.names.shown(&path), value)).collect())
    }
}

fn flatten(path: &str, value: &Value, fields: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                flatten(format!("{path}.{key}").trim_start_matches('.'), value, fields);
            }
        }
        Value::Array(items) => {
            for item in items {
                let name = item.pointer("/podRef/name").or_else(|| item.get("name")).and_then(Value::as_str);
                flatten(&format!("{path}[{}]", name.unwrap_or("-")), item, fields);
            }
        }
        other => {
            fields.insert(path.to_owned(), other.clone());
        }
    }
}

fn fields(ours: &BTreeMap<String, Value>, theirs: &BTreeMap<String, Value>) -> Vec<Difference> {
    let paths: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let mut differences = Vec::new();
    for path in paths {
        let (a, b) = (ours.get(path), theirs.get(path));
        let (what, differs) = match (a, b) {
            (Some(a), Some(b)) => {
                let near = match (a.as_f64(), b.as_f64()) {
                    (Some(a), Some(b)) => is_near(path, a, b),
                    // Times and IDs differ in every run.
                    _ => true,
                };
                ("value", !near)
            }
            _ => ("field", true),
        };
        if differs {
            differences.push(Difference {
                what: format!("{what} {path}"),
                ours: display_value(a),
                theirs: display_value(b),
            });
        }
    }
    differences
}

fn display_value(value: Option<&Value>) -> String {
    value.map_or("-".to_owned(), ToString::to_string)
}

fn families(
    ours: &BTreeMap<String, Family>,
    theirs: &BTreeMap<String, Family>,
    values: bool,
) -> Vec<Difference> {
    let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let mut differences = Vec::new();
    for name in names {
        match (ours.get(name), theirs.get(name)) {
            (Some(a), Some(b)) => {
                if a.kind != b.kind {
                    let what = format!("family {name}");
                    differences.push(Difference { what, ours: a.kind.clone(), theirs: b.kind.clone() });
                }
                if values {
                    series(name, a, b, &mut differences);
                } else {
                    label_names(name, a, b, &mut differences);
                }
            }
            (a, b) => {
                let there = |family: Option<&Family>| if family.is_some() { "has it" } else { "lacks it" };
                differences.push(Difference {
                    what: format!("family {name}"),
                    ours: there(a).to_owned(),
                    theirs: there(b).to_owned(),
                });
            }
        }
    }
    differences
}

fn series(name: &str, ours: &Family, theirs: &Family, differences: &mut Vec<Difference>) {
    let all: BTreeSet<_> = ours.series.keys().chain(theirs.series.keys()).collect();
    for labels in all {
        let text: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let shown = format!("{name}{{{}}}", text.join(","));
        let (a, b) = (ours.series.get(labels), theirs.series.get(labels));
        let display_value =
            |value: Option<&page::Value>| value.map_or("-".to_owned(), |value| value.number.to_string());
        let what = match (a, b) {
            (Some(a), Some(b)) if a.timed != b.timed => "time of",
            (Some(a), Some(b)) if is_near(&shown, a.number, b.number) => continue,
            (Some(_), Some(_)) => "value",
            _ => "series",
        };
        differences.push(Difference {
            what: format!("{what} {shown}"),
            ours: display_value(a),
            theirs: display_value(b),
        });
    }
}

fn label_names(name: &str, ours: &Family, theirs: &Family, differences: &mut Vec<Difference>) {
    let names = |family: &Family| -> BTreeSet<String> {
        family.series.keys().flatten().map(|(name, _)| name.clone()).collect()
    };
    let (a, b) = (names(ours), names(theirs));
    if a != b {
        let text = |names: &BTreeSet<String>| format!("{names:?}");
        differences.push(Difference { what: format!("labels {name}"), ours: text(&a), theirs: text(&b) });
    }
}

/// Whether two values of the same field, measured in two runs, agree.
fn is_near(what: &str, a: f64, b: f64) -> bool {
    const OF_THE_RUN: [&str; 6] = ["start_time", "last_seen", "time_seconds", "startTime", "psi", "pressure"];
    if OF_THE_RUN.iter().any(|word| what.contains(word)) {
        return true;
    }
    let of_machine = what.starts_with("node") || what.contains("id=/,") || what.contains("device=");
    let exact =
        !of_machine && (what.contains("_spec_") || what.contains("capacity") || what.starts_with("machine_"));
    if exact {
        return (a - b).abs() < 0.5;
    }
    let (share, floor) = if of_machine { (0.6, 2e9) } else { (0.4, floor(what)) };
    (a - b).abs() <= f64::max(floor, share * a.abs().max(b.abs()))
}

/// Tolerated difference of small values.
fn floor(what: &str) -> f64 {
    if what.contains("NanoSeconds") || what.contains("NanoCores") {
        2e8
    } else if what.contains("seconds") {
        0.5
    } else if what.contains("odes") || what.contains("rocess") || what.contains("hreads") {
        1.5
    } else if what.contains("ytes") || what.contains("memory") {
        1.5e6
    } else if what.contains("aults") || what.contains("failures") {
        400.0
    } else {
        50.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sides(ours: &str, theirs: &str) -> Vec<String> {
        let found = families(&page::parse(ours).unwrap(), &page::parse(theirs).unwrap(), true);
        found.into_iter().map(|difference| difference.what).collect()
    }

    #[test]
    fn families_series_values_and_times_are_compared() {
        let ours = "a_bytes{x=\"1\"} 0 17\nb{y=\"1\"} 5\nonly 1\nc_spec_d 1\n";
        let theirs = "a_bytes{x=\"1\"} 9e+06 17\nb{y=\"2\"} 5\nc_spec_d 2\n";
        let expected =
            ["value a_bytes{x=1}", "series b{y=1}", "series b{y=2}", "value c_spec_d{}", "family only"];
        assert_eq!(sides(ours, theirs), expected);
        assert_eq!(sides("a 1 17\n", "a 1\n"), ["time of a{}"]);
        assert!(sides("a_bytes 100\n", "a_bytes 4096\n").is_empty());
    }

    #[test]
    fn summary_fields_are_keyed_by_names() {
        let mut found = BTreeMap::new();
        let summary = json!({"pods": [{"podRef": {"name": "web"}, "memory": {"usageBytes": 5}}]});
        flatten("", &summary, &mut found);
        assert!(found.contains_key("pods[web].memory.usageBytes"), "{found:?}");
        let other = BTreeMap::from([("pods[web].memory.usageBytes".to_owned(), json!(9_000_000))]);
        let differences = fields(&found, &other);
        let whats: Vec<&str> = differences.iter().map(|difference| difference.what.as_str()).collect();
        assert_eq!(whats, ["value pods[web].memory.usageBytes", "field pods[web].podRef.name"]);
    }
}
