//! Function names, from the symbol tables of the mapped files.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use ports::host::profiler::Function;

use super::elf::{self, Source, Symbol};
use super::modules::Module;

/// The function symbols of one file.
pub(super) struct FunctionNames {
    /// Ordered by address.
    symbols: Vec<Symbol>,
    strings: Vec<u8>,
}

impl FunctionNames {
    /// Fails if the file was replaced since it was mapped.
    pub(super) fn read(module: &Module) -> io::Result<Self> {
        let file = open(module)?;
        let source = Source::new(&file, 0);
        let sections = elf::sections(&source)?;
        let of_kind = |kind| sections.iter().find(|section| section.kind == kind);
        let missing = || io::Error::new(io::ErrorKind::NotFound, "the file has no function symbols");
        let table = of_kind(elf::SYMBOLS).or_else(|| of_kind(elf::DYNAMIC_SYMBOLS)).ok_or_else(missing)?;
        let strings =
            usize::try_from(table.link).ok().and_then(|link| sections.get(link)).ok_or_else(missing)?;
        let mut symbols: Vec<Symbol> = elf::functions(&source.read(table.offset, table.size)?).collect();
        symbols.sort_by_key(|symbol| symbol.address);
        Ok(Self { symbols, strings: source.read(strings.offset, strings.size)? })
    }

    /// The function at an address, as linked in the file.
    pub(super) fn at(&self, address: u64) -> Option<Function> {
        let next = self.symbols.partition_point(|symbol| symbol.address <= address);
        let symbol = self.symbols.get(next.checked_sub(1)?)?;
        // Functions written in assembly may have no size.
        let is_inside = symbol.size == 0 || address - symbol.address < symbol.size;
        let text = self.strings.get(usize::try_from(symbol.name).ok()?..).filter(|_| is_inside)?;
        let symbol = String::from_utf8_lossy(text.split(|byte| *byte == 0).next()?).into_owned();
        // The alternate format omits the hash.
        Some(Function { name: format!("{:#}", rustc_demangle::demangle(&symbol)), symbol })
    }
}

/// Opens the file of a module, but not another file that now has its name.
fn open(module: &Module) -> io::Result<File> {
    let program = File::open("/proc/self/exe")?;
    if program.metadata()?.ino() == module.inode {
        return Ok(program);
    }
    let file = File::open(&module.facts.path)?;
    if file.metadata()?.ino() == module.inode {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::NotFound, "the file was replaced since it was mapped"))
}

#[cfg(test)]
mod tests {
    use super::super::modules;
    use super::*;

    #[test]
    fn finds_function_names_of_program_and_libraries() {
        let modules = modules::program_first(modules::read().unwrap());
        let own = FunctionNames::read(&modules[0]).unwrap();
        let address = modules::read as *const () as u64 - modules[0].bias;
        let found = own.at(address + 1).unwrap();
        assert_eq!(found.name, "host::profiler::processor::modules::read");
        assert!(found.symbol.starts_with('_'), "{found:?}");
        assert_eq!(own.at(0), None);

        let library = modules.iter().find(|module| module.facts.path.contains("libc.so")).unwrap();
        let names = FunctionNames::read(library).unwrap();
        let address = libc::malloc_trim as *const () as u64 - library.bias;
        assert_eq!(names.at(address).unwrap().name, "malloc_trim");
    }

    #[test]
    fn replaced_file_has_no_names() {
        let mut modules = modules::read().unwrap();
        let library = modules.iter_mut().find(|module| module.facts.path.contains("libc.so")).unwrap();
        library.inode += 1;
        assert!(FunctionNames::read(library).is_err());
    }
}
