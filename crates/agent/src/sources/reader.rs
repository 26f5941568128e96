use std::sync::Arc;

use manifest::{Origin, Place, Problem, Rules};
use model::{Pod, PodSource};

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
        Ok(Reading {
            pods: pods.map_err(|error| vec![error.to_string()])?,
            warnings: lines(&manifest.warnings),
        })
    }
}
