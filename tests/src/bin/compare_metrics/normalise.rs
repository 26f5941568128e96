//! Replaces names that differ between runs.

use std::collections::BTreeMap;

use serde_json::Value;

/// Maps IDs to names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// Texts and their replacements, longest first.
    replaced: Vec<(String, String)>,
}

impl Names {
    /// Pod UIDs come from the summary, container IDs from the labels of the cAdvisor page.
    pub(crate) fn of(summary: &Value, cadvisor: &BTreeMap<String, crate::page::Family>) -> Self {
        let mut replaced = BTreeMap::new();
        for pod in summary.get("pods").and_then(Value::as_array).into_iter().flatten() {
            let text = |name: &str| pod.pointer(&format!("/podRef/{name}")).and_then(Value::as_str);
            if let (Some(uid), Some(name)) = (text("uid"), text("name")) {
                replaced.insert(uid.to_owned(), format!("<uid of {name}>"));
            }
        }
        let series = cadvisor.get("container_last_seen").into_iter().flat_map(|family| family.series.keys());
        for labels in series {
            let label = |expected: &str| {
                labels.iter().find(|(name, _)| name == expected).map(|(_, value)| value.as_str())
            };
            let (Some(id), Some(pod)) = (label("name").filter(|id| !id.is_empty()), label("pod")) else {
                if let Some(root) = label("id").and_then(instance) {
                    replaced.insert(root.to_owned(), "/<node>".to_owned());
                    // The bridge of the node's pods.
                    replaced.insert(root.replace("/pw-", "pw"), "<bridge>".to_owned());
                }
                continue;
            };
            let whose = label("container").filter(|name| !name.is_empty()).unwrap_or("sandbox");
            replaced.insert(id.to_owned(), format!("<{whose} of {pod}>"));
        }
        let mut replaced: Vec<(String, String)> = replaced.into_iter().collect();
        replaced.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Self { replaced }
    }

    /// The text with IDs replaced by names.
    pub(crate) fn shown(&self, text: &str) -> String {
        self.replaced.iter().fold(text.to_owned(), |text, (id, name)| text.replace(id, name))
    }
}

/// The cgroup root of the test's node, such as `/pw-AVVEPR`.
fn instance(path: &str) -> Option<&str> {
    let end = path.get(1..)?.find('/').map_or(path.len(), |at| at + 1);
    path.get(..end).filter(|root| root.starts_with("/pw-"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_are_replaced_by_names() {
        let page = "container_last_seen{container=\"main\",id=\"/pw-abc/kubepods/podu1/c1\",name=\"c1\",pod=\"web\"} 1\n\
                    container_last_seen{container=\"\",id=\"/pw-abc/kubepods\",name=\"\",pod=\"\"} 1\n";
        let summary = json!({"pods": [{"podRef": {"name": "web", "uid": "u1"}}]});
        let names = Names::of(&summary, &crate::page::parse(page).unwrap());
        let shown = names.shown("/pw-abc/kubepods/podu1/c1");
        assert_eq!(shown, "/<node>/kubepods/pod<uid of web>/<main of web>");
    }
}
