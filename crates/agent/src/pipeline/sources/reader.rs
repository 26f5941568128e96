use std::sync::Arc;

use manifest::{ManifestLocation, ManifestRules, ManifestSource, Problem};
use model::{ConfigObject, ObjectKey, ObjectKind, Pod, PodSource};

/// Reads manifest text for one node.
#[derive(Clone, Debug)]
pub struct ManifestReader {
    pub node: String,
    /// Which fields static pods may use.
    pub rules: ManifestRules,
}

/// The pods and objects of a manifest.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    pub pods: Vec<Arc<Pod>>,
    pub objects: Vec<Arc<ConfigObject>>,
    pub warnings: Vec<String>,
}

impl ManifestReader {
    /// # Errors
    /// All problems, each with its line and field.
    pub fn read(&self, text: &[u8], location: ManifestLocation<'_>) -> Result<Reading, Vec<String>> {
        let source = match location {
            ManifestLocation::File(_) => PodSource::File,
            ManifestLocation::Url(_) => PodSource::Http,
        };
        let manifest_source = ManifestSource { node: &self.node, location };
        let lines = |problems: &[Problem]| problems.iter().map(ToString::to_string).collect::<Vec<_>>();
        let manifest =
            manifest::read(text, &manifest_source, &self.rules).map_err(|problems| lines(&problems))?;
        let pods: Result<Vec<_>, _> = manifest
            .pods
            .into_iter()
            .map(|entry| Pod::from_object(entry.pod, source).map(Arc::new))
            .collect();
        let mut pods = pods.map_err(|error| vec![error.to_string()])?;
        // The in-place collect reuses the allocation of the source elements, which are a hundred times larger.
        pods.shrink_to_fit();
        Ok(Reading {
            objects: manifest.objects.into_iter().map(|object| Arc::new(to_model_object(object))).collect(),
            pods,
            warnings: lines(&manifest.warnings),
        })
    }
}

impl Reading {
    /// Changes of objects that the earlier version of the manifest declared immutable.
    pub(super) fn forbidden_changes(&self, earlier: &[Arc<ConfigObject>]) -> Vec<String> {
        let mut problems = Vec::new();
        for old in earlier.iter().filter(|old| old.immutable) {
            let Some(new) = self.objects.iter().find(|new| new.key == old.key) else { continue };
            let fields = [
                ("immutable", !new.immutable),
                ("data", new.data != old.data),
                ("binaryData", new.binary_data != old.binary_data),
            ];
            for (field, _) in fields.into_iter().filter(|(_, changed)| *changed) {
                problems.push(format!(
                    "{}: {field}: Forbidden: field is immutable when `immutable` is set; remove the object first, or give the new one another name",
                    old.key
                ));
            }
        }
        problems
    }
}

fn to_model_object(object: manifest::ConfigObject) -> ConfigObject {
    let kind = match object.kind {
        manifest::ObjectKind::ConfigMap => ObjectKind::ConfigMap,
        manifest::ObjectKind::Secret => ObjectKind::Secret,
    };
    ConfigObject {
        key: ObjectKey { kind, namespace: object.namespace, name: object.name },
        uid: String::new(),
        data: object.data,
        binary_data: object.binary_data,
        secret_type: object.secret_type,
        immutable: object.immutable,
    }
}
