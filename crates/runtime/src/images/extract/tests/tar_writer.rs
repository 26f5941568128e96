//! Writes layers that no honest tool would write.

/// Blocks of a tar archive. Paths are written as they are.
pub(super) struct Layer {
    blocks: Vec<u8>,
    attributes: Vec<(String, Vec<u8>)>,
}

struct Header<'a> {
    kind: u8,
    mode: u32,
    /// User and group.
    owner: (u32, u32),
    link: &'a str,
    device: (u32, u32),
}

impl Header<'_> {
    fn new(kind: u8, mode: u32) -> Self {
        Self { kind, mode, owner: own_ids(), link: "", device: (0, 0) }
    }
}

impl Layer {
    pub(super) fn new() -> Self {
        Self { blocks: Vec::new(), attributes: Vec::new() }
    }

    pub(super) fn file(self, path: &str, content: &[u8]) -> Self {
        self.entry(path, content, &Header::new(b'0', 0o644))
    }

    pub(super) fn file_like(self, path: &str, content: &[u8], mode: u32, uid: u32, gid: u32) -> Self {
        self.entry(path, content, &Header { owner: (uid, gid), ..Header::new(b'0', mode) })
    }

    pub(super) fn folder(self, path: &str) -> Self {
        self.entry(path, b"", &Header::new(b'5', 0o755))
    }

    pub(super) fn link(self, path: &str, target: &str) -> Self {
        self.entry(path, b"", &Header { link: target, ..Header::new(b'2', 0o777) })
    }

    pub(super) fn hard_link(self, path: &str, target: &str) -> Self {
        self.entry(path, b"", &Header { link: target, ..Header::new(b'1', 0o644) })
    }

    pub(super) fn device(self, path: &str, major: u32, minor: u32) -> Self {
        self.entry(path, b"", &Header { device: (major, minor), ..Header::new(b'3', 0o666) })
    }

    pub(super) fn opaque(self, folder: &str) -> Self {
        self.file(&format!("{folder}/.wh..wh..opq"), b"")
    }

    /// Extended attributes of the next entry.
    pub(super) fn attributes(mut self, attributes: &[(&str, &[u8])]) -> Self {
        self.attributes =
            attributes.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect();
        self
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.blocks.extend([0; 1024]);
        self.blocks
    }

    fn entry(mut self, path: &str, content: &[u8], header: &Header<'_>) -> Self {
        let mut records = Vec::new();
        for (name, value) in std::mem::take(&mut self.attributes) {
            record(&mut records, &format!("SCHILY.xattr.{name}"), &value);
        }
        if path.len() > 100 {
            record(&mut records, "path", path.as_bytes());
        }
        if !records.is_empty() {
            self.block(b"pax", records.len(), &Header::new(b'x', 0o644));
            self.data(&records);
        }
        let short: String = path.chars().take(100).collect();
        self.block(short.as_bytes(), content.len(), header);
        self.data(content);
        self
    }

    fn block(&mut self, path: &[u8], size: usize, header: &Header<'_>) {
        let mut block = [0_u8; 512];
        let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
        put(0, path);
        put(100, format!("{:07o}\0", header.mode).as_bytes());
        put(108, format!("{:07o}\0", header.owner.0).as_bytes());
        put(116, format!("{:07o}\0", header.owner.1).as_bytes());
        put(124, format!("{size:011o}\0").as_bytes());
        put(136, b"00000000012\0");
        put(148, b"        ");
        put(156, &[header.kind]);
        put(157, header.link.as_bytes());
        put(257, b"ustar\x0000");
        put(329, format!("{:07o}\0", header.device.0).as_bytes());
        put(337, format!("{:07o}\0", header.device.1).as_bytes());
        let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.blocks.extend(block);
    }

    fn data(&mut self, content: &[u8]) {
        self.blocks.extend(content);
        self.blocks.resize(self.blocks.len().next_multiple_of(512), 0);
    }
}

fn record(to: &mut Vec<u8>, key: &str, value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    to.extend(format!("{length} {key}=").as_bytes());
    to.extend(value);
    to.push(b'\n');
}

fn own_ids() -> (u32, u32) {
    (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
}

/// Fails early in a group of tests that was started without privileges.
pub(super) fn owner_is_root() {
    assert!(rustix::process::getuid().is_root(), "this test needs root");
}
