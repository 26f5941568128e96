//! Documents to pods and objects: what a text holds, and each object's way through decode, defaults, identity, rules.

use document::{Document, FieldError, Position};
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::path::Path;
use crate::problem::{Problem, field_path, from_field_path};
use crate::validate::Findings;
use crate::{
    ConfigObject, Manifest, ObjectPlace, Origin, Rules, StaticPod, config_object, defaults, identity,
    references, validate,
};

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
        let items = reader.items(&mut manifest.warnings).unwrap_or_else(|found| {
            problems.extend(found);
            Vec::new()
        });
        for (at, kind) in items {
            if let Err(found) = reader.take(&at, kind, &mut manifest) {
                problems.extend(found);
            }
        }
    }
    problems.sort_by_key(|problem| (problem.document, problem.position));
    if problems.is_empty() { Ok(manifest) } else { Err(problems) }
}

/// The list kinds, as far as they matter.
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

/// The kinds that can be read.
#[derive(Clone, Copy)]
enum Kind {
    Pod,
    ConfigMap,
    Secret,
}

struct Reader<'a> {
    index: usize,
    document: &'a Document,
    origin: &'a Origin<'a>,
    rules: &'a Rules,
}

impl Reader<'_> {
    /// The objects of the document, each with its path.
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
            kind => Ok(vec![(root.clone(), self.known_kind(&root, kind)?)]),
        }
    }

    fn known_kind(&self, at: &Path, kind: &str) -> Result<Kind, Vec<Problem>> {
        match (kind, self.rules.objects) {
            ("Pod", _) => Ok(Kind::Pod),
            ("ConfigMap", ObjectPlace::Manifests) => Ok(Kind::ConfigMap),
            ("Secret", ObjectPlace::Manifests) => Ok(Kind::Secret),
            (other, _) => Err(vec![self.unsupported_kind(at, other)]),
        }
    }

    /// Reads one object into the manifest.
    fn take(&self, at: &Path, kind: Kind, manifest: &mut Manifest) -> Result<(), Vec<Problem>> {
        let warnings = &mut manifest.warnings;
        let object = match kind {
            Kind::Pod => {
                let pod = self.decode::<Pod>(at, warnings)?;
                manifest.pods.push(self.finish(at, pod)?);
                return Ok(());
            }
            Kind::ConfigMap => {
                config_object::config_map(self.decode(at, warnings).map_err(config_object::redacted)?)
            }
            Kind::Secret => {
                config_object::secret(self.decode(at, warnings).map_err(config_object::redacted)?)
            }
        };
        let object = object.map_err(|(name, findings)| self.located(name.as_ref(), at, findings))?;
        let object = ConfigObject { line: self.position(at).map_or(1, |position| position.line), ..object };
        if manifest.objects.iter().any(|known| known.is_same(&object)) {
            let path = at.field("metadata.name");
            let reason = format!("Duplicate value: {:?}", object.name);
            return Err(vec![self.problem(Some(object.name), path, reason)]);
        }
        manifest.objects.push(object);
        Ok(())
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
            _ if !matches!(kind, "" | "Pod" | "PodList" | "List" | "ConfigMap" | "Secret") => {
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
    fn list_items(&self, list_kind: &str, items: &[Value]) -> Result<Vec<(Path, Kind)>, Vec<Problem>> {
        let mut found = Vec::new();
        let mut problems = Vec::new();
        for (at, item) in Path::root().field("items").items(items) {
            let may_omit =
                list_kind == "PodList" && item.get("kind").is_none() && item.get("apiVersion").is_none();
            let kind = match may_omit {
                true => Ok(Kind::Pod),
                false => self.kind_at(&at, item).and_then(|kind| self.known_kind(&at, kind)),
            };
            match kind {
                Ok(kind) => found.push((at, kind)),
                Err(more) => problems.extend(more),
            }
        }
        if problems.is_empty() { Ok(found) } else { Err(problems) }
    }

    /// Decodes the object at a path; fields nobody knows become warnings.
    fn decode<T: DeserializeOwned>(&self, at: &Path, warnings: &mut Vec<Problem>) -> Result<T, Vec<Problem>> {
        let at = field_path(at);
        let unknown = match self.document.decode_strict_at::<T>(&at) {
            Ok(value) => return Ok(value),
            Err(errors) => errors,
        };
        let value = self.document.decode_at::<T>(&at).map_err(|error| vec![self.refused(&error)])?;
        warnings.extend(unknown.iter().map(|error| self.refused(error)));
        Ok(value)
    }

    /// Defaults, identity, rules.
    fn finish(&self, at: &Path, mut pod: Pod) -> Result<StaticPod, Vec<Problem>> {
        let object = pod.metadata.name.clone().filter(|name| !name.is_empty());
        let fail = |findings: Findings| Err(self.located(object.as_ref(), at, findings));
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
        let mut findings = validate::pod(&pod, *self.rules);
        findings.extend(references::check(&pod, self.rules));
        if !findings.is_empty() {
            return fail(findings);
        }
        let line = self.position(at).map_or(1, |position| position.line);
        Ok(StaticPod { pod, line })
    }

    /// Findings of the object at a path as problems of the text.
    fn located(&self, object: Option<&String>, at: &Path, findings: Findings) -> Vec<Problem> {
        let problem = |(path, reason): (Path, String)| self.problem(object.cloned(), path.below(at), reason);
        findings.into_iter().map(problem).collect()
    }

    fn unsupported_kind(&self, at: &Path, kind: &str) -> Problem {
        let supported = match self.rules.objects {
            ObjectPlace::ApiServer => "supported values: \"Pod\", \"PodList\", \"List\"",
            ObjectPlace::Manifests => {
                "supported values: \"Pod\", \"PodList\", \"List\", \"ConfigMap\", \"Secret\""
            }
        };
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
