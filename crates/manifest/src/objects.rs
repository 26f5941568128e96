//! Documents to pods: which objects a text holds, and each object's way through decode, defaults, identity, rules.

use document::{Document, FieldError, Position};
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::path::Path;
use crate::problem::{Problem, field_path, from_field_path};
use crate::validate::Findings;
use crate::{Manifest, Origin, Rules, StaticPod, defaults, identity, references, validate};

/// Reads a text; see [`crate::read`].
pub(crate) fn read(text: &[u8], origin: &Origin<'_>, rules: &Rules) -> Result<Manifest, Vec<Problem>> {
    let documents = document::parse(text).map_err(|error| {
        let position = Some(error.position);
        vec![Problem { document: 0, object: None, path: Path::root(), position, reason: error.reason }]
    })?;
    if documents.is_empty() {
        let reason = "no object".to_owned();
        return Err(vec![Problem { document: 0, object: None, path: Path::root(), position: None, reason }]);
    }
    let mut manifest = Manifest::default();
    let mut problems = Vec::new();
    for (index, document) in documents.iter().enumerate() {
        let reader = Reader { index, document, origin, rules };
        match reader.pods(&mut manifest.warnings) {
            Ok(found) => found.into_iter().for_each(|(at, pod)| match reader.finish(&at, pod) {
                Ok(pod) => manifest.pods.push(pod),
                Err(found) => problems.extend(found),
            }),
            Err(found) => problems.extend(found),
        }
    }
    problems.sort_by_key(|problem| (problem.document, problem.position));
    if problems.is_empty() { Ok(manifest) } else { Err(problems) }
}

/// The list kinds, as far as they matter.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodItems {
    #[serde(default, rename = "apiVersion")]
    _api_version: Value,
    #[serde(default, rename = "kind")]
    _kind: Value,
    #[serde(default, rename = "metadata")]
    _metadata: Value,
    #[serde(default)]
    items: Option<Vec<Pod>>,
}

struct Reader<'a> {
    index: usize,
    document: &'a Document,
    origin: &'a Origin<'a>,
    rules: &'a Rules,
}

impl Reader<'_> {
    /// The pods of the document, each with its path.
    fn pods(&self, warnings: &mut Vec<Problem>) -> Result<Vec<(Path, Pod)>, Vec<Problem>> {
        let root = Path::root();
        let Value::Object(_) = self.document.value() else {
            return Err(vec![self.problem(
                None,
                root,
                "not an object; expected a Pod with apiVersion and kind",
            )]);
        };
        let kind = self.kind_at(&root, self.document.value())?;
        match kind {
            "Pod" => Ok(vec![(root, self.decode::<Pod>(warnings)?)]),
            "PodList" | "List" => {
                self.check_items(kind)?;
                let items = self.decode::<PodItems>(warnings)?.items.unwrap_or_default();
                let at = root.field("items");
                Ok(items.into_iter().enumerate().map(|(index, pod)| (at.index(index), pod)).collect())
            }
            other => Err(vec![self.unsupported_kind(&root, other)]),
        }
    }

    /// The kind of an object that must say what it is.
    fn kind_at<'v>(&self, at: &Path, value: &'v Value) -> Result<&'v str, Vec<Problem>> {
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
        let (kind, api_version) = (text("kind"), text("apiVersion"));
        let mut problems = Vec::new();
        if kind.is_empty() {
            problems.push(self.problem(None, at.field("kind"), "Required value"));
        }
        match api_version {
            "v1" => {}
            "" => problems.push(self.problem(None, at.field("apiVersion"), "Required value")),
            _ if !matches!(kind, "" | "Pod" | "PodList" | "List") => {
                problems.push(self.unsupported_kind(at, kind));
            }
            other => {
                let reason = format!("Unsupported value: {other:?}: supported values: \"v1\"");
                problems.push(self.problem(None, at.field("apiVersion"), reason));
            }
        }
        if problems.is_empty() { Ok(kind) } else { Err(problems) }
    }

    /// A `List` must name the kind of every item, a `PodList` need not.
    fn check_items(&self, list_kind: &str) -> Result<(), Vec<Problem>> {
        let at = Path::root().field("items");
        let items = self.document.value().get("items").and_then(Value::as_array);
        let mut problems = Vec::new();
        for (at, item) in at.items(items.map(Vec::as_slice).unwrap_or_default()) {
            let may_omit =
                list_kind == "PodList" && item.get("kind").is_none() && item.get("apiVersion").is_none();
            if may_omit {
                continue;
            }
            match self.kind_at(&at, item) {
                Ok("Pod") => {}
                Ok(other) => problems.push(self.unsupported_kind(&at, other)),
                Err(found) => problems.extend(found),
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// Decodes the whole document; fields nobody knows become warnings.
    fn decode<T: DeserializeOwned>(&self, warnings: &mut Vec<Problem>) -> Result<T, Vec<Problem>> {
        let unknown = match self.document.decode_strict::<T>() {
            Ok(value) => return Ok(value),
            Err(errors) => errors,
        };
        let value = self.document.decode::<T>().map_err(|error| vec![self.refused(&error)])?;
        warnings.extend(unknown.iter().map(|error| self.refused(error)));
        Ok(value)
    }

    /// Defaults, identity, rules.
    fn finish(&self, at: &Path, mut pod: Pod) -> Result<StaticPod, Vec<Problem>> {
        let object = pod.metadata.name.clone().filter(|name| !name.is_empty());
        let fail = |findings: Findings| {
            let problems = findings
                .into_iter()
                .map(|(path, reason)| self.problem(object.clone(), path.below(at), reason));
            Err(problems.collect())
        };
        let malformed = validate::quantities(&mut pod);
        if !malformed.is_empty() {
            return fail(malformed);
        }
        defaults::apply(&mut pod);
        if object.is_none() {
            return fail(vec![(
                Path::root().field("metadata.name"),
                "Required value: a static pod needs a name".into(),
            )]);
        }
        if let Err(error) = identity::apply(&mut pod, self.origin) {
            return fail(vec![(Path::root(), error.to_string())]);
        }
        defaults::publish_quantities(&mut pod);
        let mut findings = validate::pod(&pod);
        findings.extend(references::check(&pod, self.rules));
        if !findings.is_empty() {
            return fail(findings);
        }
        let line = self.position(at).map_or(1, |position| position.line);
        Ok(StaticPod { pod, line })
    }

    fn unsupported_kind(&self, at: &Path, kind: &str) -> Problem {
        let supported = "supported values: \"Pod\", \"PodList\", \"List\"";
        self.problem(None, at.field("kind"), format!("Unsupported value: {kind:?}: {supported}"))
    }

    fn refused(&self, error: &FieldError) -> Problem {
        Problem {
            position: error.position,
            ..self.problem(None, from_field_path(&error.path), error.reason.clone())
        }
    }

    fn problem(&self, object: Option<String>, path: Path, reason: impl Into<String>) -> Problem {
        let position = self.position(&path);
        Problem { document: self.index, object, path, position, reason: reason.into() }
    }

    fn position(&self, path: &Path) -> Option<Position> {
        self.document.position(&field_path(path))
    }
}
