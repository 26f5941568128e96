//! The executable mappings of this process: the program and its libraries, with their unwind tables.

use std::fs::File;
use std::io;

use ports::host::profiler::ModuleFacts;

use super::elf::{self, Segment, Source};

pub(super) struct Module {
    pub(super) facts: ModuleFacts,
    /// Load bias: address in this process minus address in the file.
    pub(super) bias: u64,
    /// Identifies the mapped file even if its name was reused.
    pub(super) inode: u64,
    pub(super) unwinding: Option<UnwindTables>,
}

/// Unwind tables, each with its address in this process.
pub(super) struct UnwindTables {
    /// `.eh_frame_hdr`, the binary search table.
    pub(super) index: (u64, Vec<u8>),
    /// `.eh_frame`.
    pub(super) frames: (u64, Vec<u8>),
}

/// All modules, ordered by address.
pub(super) fn read() -> io::Result<Vec<Module>> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let memory = File::open("/proc/self/mem")?;
    let mappings: Vec<Mapping<'_>> = maps.lines().filter_map(mapping).collect();
    let module = |(number, mapping): (usize, &Mapping<'_>)| {
        // The mappings of a file are adjacent, the one with its beginning first.
        let before = mappings.get(..=number)?;
        let image = before.iter().rfind(|first| first.path == mapping.path && first.offset == 0)?;
        Some(module(&memory, mapping, image.start))
    };
    let code = mappings.iter().enumerate().filter(|(_, mapping)| mapping.is_code);
    let mut modules: Vec<Module> = code.filter_map(module).collect();
    modules.sort_by_key(|module| module.facts.start);
    Ok(modules)
}

/// Moves the program to the front, where readers of profiles expect it.
pub(super) fn program_first(modules: Vec<Module>) -> Vec<Module> {
    let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    move_to_front(modules, &program.to_string_lossy())
}

fn move_to_front(mut modules: Vec<Module>, link: &str) -> Vec<Module> {
    let program = original_path(link);
    modules.sort_by_key(|module| module.facts.path != program);
    modules
}

/// The original path of a file: the kernel marks a file that was removed or replaced.
fn original_path(path: &str) -> &str {
    path.trim_end_matches(" (deleted)")
}

/// A line of `/proc/self/maps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping<'a> {
    start: u64,
    end: u64,
    offset: u64,
    is_code: bool,
    inode: u64,
    path: &'a str,
}

/// Parses a line about a file or the vDSO; `None` for other mappings.
fn mapping(line: &str) -> Option<Mapping<'_>> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let access = fields.next()?;
    let offset = fields.next()?;
    let inode = fields.nth(1)?;
    let path = fields.next()?.trim_start();
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(Mapping {
        start: number(start)?,
        end: number(end)?,
        offset: number(offset)?,
        is_code: access.contains('x'),
        inode: inode.parse().ok()?,
        path: Some(path).filter(|path| path.starts_with('/') || *path == "[vdso]")?,
    })
}

/// The module of a mapping whose file begins at `image` in memory. A module with unreadable tables is not unwound.
fn module(memory: &File, mapping: &Mapping<'_>, image: u64) -> Module {
    let segments = elf::segments(&Source::new(memory, image)).unwrap_or_default();
    let first = segments.iter().find(|segment| segment.kind == elf::LOAD && segment.offset == 0);
    let bias = image.wrapping_sub(first.map_or(0, |segment| segment.address));
    let loaded = Source::new(memory, bias);
    let notes = segments.iter().filter(|segment| segment.kind == elf::NOTE);
    let build_id = |note: &Segment| elf::build_id(&loaded.read(note.address, note.size).ok()?);
    let facts = ModuleFacts {
        start: mapping.start,
        end: mapping.end,
        offset: mapping.offset,
        // Without the kernel's mark, so that readers can find a copy with the same build ID.
        path: original_path(mapping.path).to_owned(),
        build_id: notes.filter_map(build_id).next().unwrap_or_default(),
        is_named: false,
    };
    Module { facts, bias, inode: mapping.inode, unwinding: unwind_tables(&loaded, &segments, bias) }
}

fn unwind_tables(loaded: &Source<'_>, segments: &[Segment], bias: u64) -> Option<UnwindTables> {
    let index = segments.iter().find(|segment| segment.kind == elf::UNWIND_TABLE)?;
    let bytes = loaded.read(index.address, index.size).ok()?;
    // Version 1; the pointer to .eh_frame has 32 bits and is relative to its own address, as all linkers write it.
    let pointer = bytes.strip_prefix(&[1, 0x1b])?.get(2..)?.first_chunk().copied()?;
    let frames = (index.address + 4).wrapping_add_signed(i64::from(i32::from_le_bytes(pointer)));
    let contains_frames = |segment: &&Segment| {
        segment.kind == elf::LOAD && (segment.address..segment.address + segment.size).contains(&frames)
    };
    let end = segments.iter().find(contains_frames).map(|segment| segment.address + segment.size)?;
    Some(UnwindTables {
        index: (bias.wrapping_add(index.address), bytes),
        frames: (bias.wrapping_add(frames), loaded.read(frames, end - frames).ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_comes_first_and_all_modules_have_unwind_tables() {
        let modules = program_first(read().unwrap());
        let program = std::env::current_exe().unwrap();
        assert_eq!(modules[0].facts.path, program.to_string_lossy());
        assert!(modules.iter().any(|module| module.facts.path.contains("libc.so")));
        for module in &modules {
            assert!(module.unwinding.is_some(), "{:?}", module.facts);
        }
        let own = read as *const () as u64;
        assert!((modules[0].facts.start..modules[0].facts.end).contains(&own));
    }

    #[test]
    fn replaced_program_comes_first() {
        let maps = [
            "1000-2000 r-xp 00001000 fe:00 8 /lib/libc.so.6",
            "3000-4000 r-xp 00001000 fe:00 7 /bin/agent (deleted)",
        ];
        for link in ["/bin/agent (deleted)", "/bin/agent"] {
            let memory = File::open("/dev/null").unwrap();
            let modules = maps.iter().map(|line| module(&memory, &mapping(line).unwrap(), 0)).collect();
            assert_eq!(move_to_front(modules, link)[0].facts.path, "/bin/agent", "{link}");
        }
    }

    #[test]
    fn skips_mappings_without_a_file() {
        let lines = [
            ("7f00-8000 rw-p 00000000 00:00 0 ", None),
            ("7f00-8000 rw-p 00000000 00:00 0                          [stack]", None),
            ("", None),
            (
                "7f00-8000 r-xp 00001000 fe:00 17      /opt/a b",
                Some(Mapping {
                    start: 0x7f00,
                    end: 0x8000,
                    offset: 0x1000,
                    is_code: true,
                    inode: 17,
                    path: "/opt/a b",
                }),
            ),
        ];
        for (line, expected) in lines {
            assert_eq!(mapping(line), expected, "{line}");
        }
    }
}
