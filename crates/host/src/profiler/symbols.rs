//! Names of functions, from the files that code is mapped from.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use ports::profiler::Function;

use super::elf::{self, Source, Symbol};
use super::modules::Module;

/// The names of one file.
pub(super) struct Names {
    /// By address.
    symbols: Vec<Symbol>,
    text: Vec<u8>,
}

impl Names {
    /// The names of a module's functions. A file that was replaced since has none.
    pub(super) fn read(module: &Module) -> io::Result<Self> {
        let file = open(module)?;
        let source = Source::new(&file, 0);
        let sections = elf::sections(&source)?;
        let of_kind = |kind| sections.iter().find(|section| section.kind == kind);
        let none = || io::Error::new(io::ErrorKind::NotFound, "the file has no names of functions");
        let table = of_kind(elf::SYMBOLS).or_else(|| of_kind(elf::DYNAMIC_SYMBOLS)).ok_or_else(none)?;
        let text = usize::try_from(table.link).ok().and_then(|link| sections.get(link)).ok_or_else(none)?;
        let mut symbols: Vec<Symbol> = elf::functions(&source.read(table.offset, table.size)?).collect();
        symbols.sort_by_key(|symbol| symbol.address);
        Ok(Self { symbols, text: source.read(text.offset, text.size)? })
    }

    /// The function at an address of the file.
    pub(super) fn at(&self, address: u64) -> Option<Function> {
        let behind = self.symbols.partition_point(|symbol| symbol.address <= address);
        let symbol = self.symbols.get(behind.checked_sub(1)?)?;
        // Functions written in assembly may not say how long they are.
        let is_inside = symbol.size == 0 || address - symbol.address < symbol.size;
        let text = self.text.get(usize::try_from(symbol.name).ok()?..).filter(|_| is_inside)?;
        let symbol = String::from_utf8_lossy(text.split(|byte| *byte == 0).next()?).into_owned();
        // Without the hash that tells two builds of a function apart.
        Some(Function { name: format!("{:#}", rustc_demangle::demangle(&symbol)), symbol })
    }
}

/// The file of a module, and no other that has its name now.
fn open(module: &Module) -> io::Result<File> {
    let program = File::open("/proc/self/exe")?;
    if program.metadata()?.ino() == module.inode {
        return Ok(program);
    }
    let file = File::open(&module.facts.path)?;
    if file.metadata()?.ino() == module.inode {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::NotFound, "the file was replaced"))
}

#[cfg(test)]
mod tests {
    use super::super::modules;
    use super::*;

    #[test]
    fn functions_of_the_program_and_of_its_libraries_have_names() {
        let modules = modules::program_first(modules::read().unwrap());
        let own = Names::read(&modules[0]).unwrap();
        let address = modules::read as *const () as u64 - modules[0].bias;
        let found = own.at(address + 1).unwrap();
        assert_eq!(found.name, "host::profiler::modules::read");
        assert!(found.symbol.starts_with('_'), "{found:?}");
        assert_eq!(own.at(0), None);

        let library = modules.iter().find(|module| module.facts.path.contains("libc.so")).unwrap();
        let names = Names::read(library).unwrap();
        let address = libc::malloc_trim as *const () as u64 - library.bias;
        assert_eq!(names.at(address).unwrap().name, "malloc_trim");
    }

    #[test]
    fn a_file_that_was_replaced_names_nothing() {
        let mut modules = modules::read().unwrap();
        let library = modules.iter_mut().find(|module| module.facts.path.contains("libc.so")).unwrap();
        library.inode += 1;
        assert!(Names::read(library).is_err());
    }
}
