//! Reads the objects of a text: decode, apply defaults, set the identity, validate.

use document::{Document, FieldError, Position};
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::path::Path;
use crate::problem::{Problem, field_path, from_field_path};
use crate::validate::Violations;
use crate::{
    ConfigObject, Manifest, ManifestRules, ManifestSource, ObjectSource, StaticPod, config_object, defaults,
    identity, references, validate,
};

/// Parses and validates a manifest. Returns either all pods and objects of the text, or all problems.
pub fn read(
    text: &[u8],
    source: &ManifestSource<'_>,
    rules: &ManifestRules,
) -> Result<Manifest, Vec<Problem>> {
    let documents = document::parse(text).map_err(|error| {
        let position = Some(error.position);
        vec![Problem { document: 0, object: None, path: Path::root(), position, reason: error.reason }]
    })?;
    if documents.is_empty() {
        let reason = "the manifest contains no object".to_owned();
        return Err(vec![Problem { document: 0, object: None, path: Path::root(), position: None, reason }]);
    }
    let mut manifest = Manifest::default();
    let mut problems = Vec::new();
    for (index, document) in documents.iter().enumerate() {
        let reader = DocumentReader { index, document, source, rules };
        let items = reader.items(&mut manifest.warnings).unwrap_or_else(|found| {
            problems.extend(found);
            Vec::new()
        });
        for (path, kind) in items {
            if let Err(found) = reader.read_object(&path, kind, &mut manifest) {
                problems.extend(found);
            }
        }
    }
    problems.sort_by_key(|problem| (problem.document, problem.position));
    if problems.is_empty() { Ok(manifest) } else { Err(problems) }
}

/// The relevant fields of `List` and `PodList`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListHead {
    #[serde(default, rename = "apiVersion")]
    _api_version: Value,
    #[serde(default, rename = "kind")]
    _kind: Value,
    #[serde(default, rename = "metadata")]
    _metadata: Value,
    #[serde(default)]
    items: Option<Vec<Value>>,
}

#[derive(Clone, Copy)]
enum Kind {
    Pod,
    ConfigMap,
    Secret,
}

struct DocumentReader<'a> {
    index: usize,
    document: &'a Document,
    source: &'a ManifestSource<'a>,
    rules: &'a ManifestRules,
}

impl DocumentReader<'_> {
    /// The paths and kinds of all objects in the document.
    fn items(&self, warnings: &mut Vec<Problem>) -> Result<Vec<(Path, Kind)>, Vec<Problem>> {
        let root = Path::root();
        let Value::Object(_) = self.document.value() else {
            return Err(vec![self.problem(
                None,
                root,
                "not an object; expected a Pod with apiVersion and kind",
            )]);
        };
        match self.kind_at(&root, self.document.value())? {
            kind @ ("PodList" | "List") => {
                let head = self.decode::<ListHead>(&root, warnings)?;
                self.list_items(kind, &head.items.unwrap_or_default())
            }
            kind => Ok(vec![(root.clone(), self.supported_kind(&root, kind)?)]),
        }
    }

    fn supported_kind(&self, path: &Path, kind: &str) -> Result<Kind, Vec<Problem>> {
        match (kind, self.rules.objects) {
            ("Pod", _) => Ok(Kind::Pod),
            ("ConfigMap", ObjectSource::Manifests) => Ok(Kind::ConfigMap),
            ("Secret", ObjectSource::Manifests) => Ok(Kind::Secret),
            (other, _) => Err(vec![self.unsupported_kind(path, other)]),
        }
    }

    /// Reads one object and adds it to the manifest.
    fn read_object(&self, path: &Path, kind: Kind, manifest: &mut Manifest) -> Result<(), Vec<Problem>> {
        let warnings = &mut manifest.warnings;
        let object = match kind {
            Kind::Pod => {
                let pod = self.decode::<Pod>(path, warnings)?;
                manifest.pods.push(self.finish(path, pod)?);
                return Ok(());
            }
            Kind::ConfigMap => {
                config_object::config_map(self.decode(path, warnings).map_err(config_object::redact)?)
            }
            Kind::Secret => {
                config_object::secret(self.decode(path, warnings).map_err(config_object::redact)?)
            }
        };
        let object =
            object.map_err(|(name, violations)| self.problems_at(name.as_ref(), path, violations))?;
        let object = ConfigObject { line: self.position(path).map_or(1, |position| position.line), ..object };
        if manifest.objects.iter().any(|known| known.has_same_identity(&object)) {
            let name_path = path.field("metadata.name");
            let reason = format!("Duplicate value: {:?}", object.name);
            return Err(vec![self.problem(Some(object.name), name_path, reason)]);
        }
        manifest.objects.push(object);
        Ok(())
    }

    /// The kind of an object with the required fields `kind` and `apiVersion`.
    fn kind_at<'v>(&self, path: &Path, value: &'v Value) -> Result<&'v str, Vec<Problem>> {
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
        let (kind, api_version) = (text("kind"), text("apiVersion"));
        let mut problems = Vec::new();
        if kind.is_empty() {
            problems.push(self.problem(None, path.field("kind"), "Required value"));
        }
        match api_version {
            "v1" => {}
            "" => problems.push(self.problem(None, path.field("apiVersion"), "Required value")),
            _ if !matches!(kind, "" | "Pod" | "PodList" | "List" | "ConfigMap" | "Secret") => {
                problems.push(self.unsupported_kind(path, kind));
            }
            other => {
                let reason = format!("Unsupported value: {other:?}: supported values: \"v1\"");
                problems.push(self.problem(None, path.field("apiVersion"), reason));
            }
        }
        if problems.is_empty() { Ok(kind) } else { Err(problems) }
    }

    /// Every item of a `List` must have a kind; items of a `PodList` may omit it.
    fn list_items(&self, list_kind: &str, items: &[Value]) -> Result<Vec<(Path, Kind)>, Vec<Problem>> {
        let mut found = Vec::new();
        let mut problems = Vec::new();
        for (path, item) in Path::root().field("items").items(items) {
            let may_omit =
                list_kind == "PodList" && item.get("kind").is_none() && item.get("apiVersion").is_none();
            let kind = match may_omit {
                true => Ok(Kind::Pod),
                false => self.kind_at(&path, item).and_then(|kind| self.supported_kind(&path, kind)),
            };
            match kind {
                Ok(kind) => found.push((path, kind)),
                Err(more) => problems.extend(more),
            }
        }
        if problems.is_empty() { Ok(found) } else { Err(problems) }
    }

    /// Decodes the object at a path; unknown fields become warnings.
    fn decode<T: DeserializeOwned>(
        &self,
        path: &Path,
        warnings: &mut Vec<Problem>,
    ) -> Result<T, Vec<Problem>> {
        let path = field_path(path);
        let unknown = match self.document.decode_strict_at::<T>(&path) {
            Ok(value) => return Ok(value),
            Err(errors) => errors,
        };
        let value = self.document.decode_at::<T>(&path).map_err(|error| vec![self.decode_problem(&error)])?;
        warnings.extend(unknown.iter().map(|error| self.decode_problem(error)));
        Ok(value)
    }

    /// Applies defaults, sets the identity and validates.
    fn finish(&self, path: &Path, mut pod: Pod) -> Result<StaticPod, Vec<Problem>> {
        let object = pod.metadata.name.clone().filter(|name| !name.is_empty());
        let fail = |violations: Violations| Err(self.problems_at(object.as_ref(), path, violations));
        let malformed = validate::find_malformed_quantities(&mut pod);
        if !malformed.is_empty() {
            return fail(malformed);
        }
        defaults::apply(&mut pod);
        if object.is_none() {
            return fail(vec![(
                Path::root().field("metadata.name"),
                "Required value: a static pod must have a name".into(),
            )]);
        }
        if let Err(error) = identity::apply(&mut pod, self.source) {
            return fail(vec![(Path::root(), error.to_string())]);
        }
        defaults::publish_quantities(&mut pod);
        let mut violations = validate::check_pod(&pod, *self.rules);
        violations.extend(references::check(&pod, self.rules));
        if !violations.is_empty() {
            return fail(violations);
        }
        let line = self.position(path).map_or(1, |position| position.line);
        Ok(StaticPod { pod, line })
    }

    /// Converts violations of the object at a path into problems of the text.
    fn problems_at(&self, object: Option<&String>, path: &Path, violations: Violations) -> Vec<Problem> {
        let problem =
            |(field, reason): (Path, String)| self.problem(object.cloned(), field.below(path), reason);
        violations.into_iter().map(problem).collect()
    }

    fn unsupported_kind(&self, path: &Path, kind: &str) -> Problem {
        let supported = match self.rules.objects {
            ObjectSource::ApiServer => "supported values: \"Pod\", \"PodList\", \"List\"",
            ObjectSource::Manifests => {
                "supported values: \"Pod\", \"PodList\", \"List\", \"ConfigMap\", \"Secret\""
            }
        };
        self.problem(None, path.field("kind"), format!("Unsupported value: {kind:?}: {supported}"))
    }

    fn decode_problem(&self, error: &FieldError) -> Problem {
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
