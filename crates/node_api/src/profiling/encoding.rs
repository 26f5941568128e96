//! The file format of pprof: gzipped protobuf.

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

/// The messages, from `proto/profile.proto`.
#[expect(unreachable_pub, reason = "generated code")]
pub(super) mod proto {
    include!(concat!(env!("OUT_DIR"), "/perftools.profiles.rs"));
}

/// The string table of a profile.
pub(super) struct Texts {
    all: Vec<String>,
    known: HashMap<String, i64>,
}

impl Texts {
    pub(super) fn new() -> Self {
        Self { all: vec![String::new()], known: HashMap::from([(String::new(), 0)]) }
    }

    /// The index of a string, which is added if it is new.
    pub(super) fn index(&mut self, text: &str) -> i64 {
        if let Some(index) = self.known.get(text) {
            return *index;
        }
        let index = self.all.len() as i64;
        self.all.push(text.to_owned());
        self.known.insert(text.to_owned(), index);
        index
    }

    pub(super) fn value_type(&mut self, kind: &str, unit: &str) -> proto::ValueType {
        proto::ValueType { r#type: self.index(kind), unit: self.index(unit) }
    }

    pub(super) fn into_table(self) -> Vec<String> {
        self.all
    }
}

pub(super) fn encode(profile: &proto::Profile) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&profile.encode_to_vec())?;
    encoder.finish()
}
