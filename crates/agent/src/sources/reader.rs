use std::sync::Arc;

use manifest::{Origin, Place, Problem, Rules};
use model::{ConfigObject, ObjectKey, ObjectKind, Pod, PodSource};

/// Reads manifest text for one node.
#[derive(Clone, Debug)]
pub struct ManifestReader {
    /// The node's name.
    pub node: String,
    /// What static pods may say.
    pub rules: Rules,
}

/// What a text held.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Usable pods.
    pub pods: Vec<Arc<Pod>>,
    /// Usable ConfigMaps and Secrets.
    pub objects: Vec<Arc<ConfigObject>>,
    /// Fields that were ignored.
    pub warnings: Vec<String>,
}

impl ManifestReader {
    /// Reads one text.
    ///
    /// # Errors
    /// All problems of the text, each with its line and field.
    pub fn read(&self, text: &[u8], place: Place<'_>) -> Result<Reading, Vec<String>> {
        let source = match place {
            Place::File(_) => PodSource::File,
            Place::Url(_) => PodSource::Http,
        };
        let origin = Origin { node: &self.node, place };
        let lines = |problems: &[Problem]| problems.iter().map(ToString::to_string).collect::<Vec<_>>();
        let manifest = manifest::read(text, &origin, &self.rules).map_err(|problems| lines(&problems))?;
        let pods: Result<Vec<_>, _> = manifest
            .pods
            .into_iter()
            .map(|entry| Pod::from_object(entry.pod, source).map(Arc::new))
            .collect();
        let mut pods = pods.map_err(|error| vec![error.to_string()])?;
        // The list is kept, and lies where the objects lay, which were a hundred times larger.
        pods.shrink_to_fit();
        Ok(Reading {
            objects: manifest.objects.into_iter().map(|object| Arc::new(taken(object))).collect(),
            pods,
            warnings: lines(&manifest.warnings),
        })
    }
}

impl Reading {
    /// What the text changes in objects that an earlier version of it declared immutable.
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

fn taken(object: manifest::ConfigObject) -> ConfigObject {
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
