//! Parser of cubins.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use goblin::elf::section_header::{SHF_ALLOC, SHT_PROGBITS, SectionHeader};
use goblin::elf::sym::{STT_FUNC, Sym};

use super::{CodeSection, Cubin, CubinError, CubinFunction, info};
use crate::elf::{ElfReader, SymbolTable};
use crate::word::{INSTRUCTION_BYTES, Sm};

/// `e_machine` of cubins.
const EM_CUDA: u16 = 190;
/// `EI_OSABI` of cubins whose flags hold the architecture in the second byte (CUDA 13, and earlier for sm_100).
const OSABI_NEW: u8 = 0x41;
const EI_OSABI: usize = 7;
/// Bit of a symbol's `st_other` that says that it is a kernel.
const STO_CUDA_ENTRY: u8 = 0x10;
/// Prefix of the names of code sections.
const TEXT: &str = ".text.";
const INFO: &str = ".nv.info";
/// The section of calls: pairs of symbols, caller and callee, as 32-bit words. Entries about no callee are negative.
const CALLS: &str = ".nv.callgraph";
/// Names of called functions may take this many times the file's size: each is a copy.
const MAX_NAMES: usize = 16;
/// Maximum number of damage reports.
const MAX_DAMAGE: usize = 64;

pub(super) fn read(bytes: &[u8]) -> Result<Cubin, CubinError> {
    // Cubins are untrusted: a panic of the ELF reader on a malformed one ends here.
    catch_unwind(AssertUnwindSafe(|| parse(bytes))).unwrap_or(Err(CubinError::Malformed))
}

fn parse(bytes: &[u8]) -> Result<Cubin, CubinError> {
    let elf = ElfReader::read(bytes).map_err(|cause| CubinError::Elf { cause })?;
    let header = elf.header();
    if header.e_machine != EM_CUDA {
        return Err(CubinError::Machine { machine: header.e_machine });
    }
    let flags = header.e_flags;
    let sm = if header.e_ident[EI_OSABI] == OSABI_NEW { flags >> 8 & 0xff } else { flags & 0xff };
    let mut reader = CubinReader::new(&elf, bytes.len());
    reader.find_functions();
    reader.read_references();
    reader.read_calls();
    reader.read_info();
    let CubinReader { code, pointed, damage, .. } = reader;
    let mut sections: Vec<CodeSection> = code.into_values().collect();
    sections.sort_by_key(|section| section.bytes.start);
    Ok(Cubin { sm: Sm(sm), sections, pointed, damage })
}

/// A cubin that is being read.
struct CubinReader<'a> {
    elf: &'a ElfReader<'a>,
    symbols: Option<SymbolTable<'a>>,
    /// Sections of code, by index in the file.
    code: BTreeMap<usize, CodeSection>,
    /// Functions whose addresses stand in data.
    pointed: BTreeSet<String>,
    damage: Vec<String>,
    /// Bytes of names that may still be copied.
    names_left: usize,
}

impl<'a> CubinReader<'a> {
    fn new(elf: &'a ElfReader<'a>, file_bytes: usize) -> Self {
        let mut damage = elf.damage.clone();
        let symbols = elf.symbols();
        if symbols.is_none() {
            damage.push("its table of symbols cannot be read".to_owned());
        }
        let names_left = file_bytes.saturating_mul(MAX_NAMES);
        let (code, pointed) = (BTreeMap::new(), BTreeSet::new());
        let mut reader = Self { elf, symbols, code, pointed, damage, names_left };
        for index in 0..elf.sections().len() {
            reader.add_section(index);
        }
        reader
    }

    /// Adds a section if it holds code.
    fn add_section(&mut self, index: usize) {
        let Some(header) = self.elf.sections().get(index).filter(|header| header.sh_type == SHT_PROGBITS)
        else {
            return;
        };
        let Some(name) = self.elf.section_name(index).filter(|name| name.starts_with(TEXT)) else { return };
        let Some(bytes) = self.elf.range(index) else { return };
        if u32::try_from(bytes.len()).is_err() {
            self.report(format!("section {index} has 4 GiB or more of code"));
            return;
        }
        let Some(name) = self.copy_name(name) else { return };
        // Up to sm_89 the count stands here, too. Later this is zero.
        let registers = Some(header.sh_info >> 24).filter(|registers| *registers > 0);
        self.code.insert(index, CodeSection { name, bytes, registers, ..CodeSection::default() });
    }

    /// Puts every function into its section.
    fn find_functions(&mut self) {
        let Some(symbols) = self.symbols.take() else { return };
        for symbol in symbols.iter().filter(|symbol| symbol.st_type() == STT_FUNC) {
            self.add_function(&symbols, &symbol);
        }
        for section in self.code.values_mut() {
            cut_functions(&mut section.functions);
        }
        self.symbols = Some(symbols);
    }

    fn add_function(&mut self, symbols: &SymbolTable<'_>, symbol: &Sym) {
        let Some(section) = self.code.get(&symbol.st_shndx) else { return };
        let section_bytes = section.bytes.len() as u64;
        let Some(name) = symbols.name(symbol).and_then(|name| self.copy_name(name)) else { return };
        let end = symbol.st_value.checked_add(symbol.st_size).filter(|end| *end <= section_bytes);
        let range = end
            .and_then(|_| Some((u32::try_from(symbol.st_value).ok()?, u32::try_from(symbol.st_size).ok()?)));
        let Some((offset, bytes)) = range else {
            self.report(format!("function `{name}` reaches beyond its section"));
            return;
        };
        let is_kernel = symbol.st_other & STO_CUDA_ENTRY != 0;
        let function = CubinFunction { name, is_kernel, offset, bytes, symbol_bytes: bytes };
        if let Some(section) = self.code.get_mut(&symbol.st_shndx) {
            section.functions.push(function);
        }
    }

    /// Reads which functions' addresses the code takes.
    fn read_references(&mut self) {
        let Some(symbols) = self.symbols.take() else { return };
        for table in 0..self.elf.sections().len() {
            if let Some(section) = self.elf.relocated(table) {
                self.read_relocations(&symbols, table, section);
            }
        }
        self.symbols = Some(symbols);
    }

    fn read_relocations(&mut self, symbols: &SymbolTable<'_>, table: usize, section: usize) {
        let is_code = self.code.contains_key(&section);
        // Tables for debuggers name functions too. They are not loaded.
        let is_loaded = |header: &SectionHeader| header.sh_flags & u64::from(SHF_ALLOC) != 0;
        if !is_code && !self.elf.sections().get(section).is_some_and(is_loaded) {
            return;
        }
        for relocation in self.elf.relocation_table(table).into_iter().flatten() {
            let function = symbols.get(relocation.symbol).filter(|symbol| symbol.st_type() == STT_FUNC);
            let name = function.and_then(|function| symbols.name(&function));
            // With an addend it is an offset in a function, such as where a call returns to.
            if let Some(name) = name.filter(|_| relocation.addend.unwrap_or(0) == 0) {
                if is_code {
                    self.add_reference(section, relocation.offset, name);
                } else if let Some(name) = self.copy_name(name) {
                    self.pointed.insert(name);
                }
            }
        }
    }

    fn add_reference(&mut self, section: usize, offset: u64, name: &str) {
        let Some(name) = Some(name).filter(|name| !name.is_empty()).and_then(|name| self.copy_name(name))
        else {
            return;
        };
        let Some(section) = self.code.get_mut(&section) else { return };
        match u32::try_from(offset).ok().filter(|offset| (*offset as usize) < section.bytes.len()) {
            // The offset is within the instruction for some kinds of relocations.
            Some(offset) => {
                section.references.insert(offset - offset % INSTRUCTION_BYTES, name);
            }
            None => self.report("a relocation lies outside its section".to_owned()),
        }
    }

    /// Reads which functions of the driver the code calls. Their addresses lie in tables that the kernels share.
    fn read_calls(&mut self) {
        let Some(symbols) = self.symbols.take() else { return };
        let mut sections = 0..self.elf.sections().len();
        let index = sections.find(|index| self.elf.section_name(*index) == Some(CALLS));
        let bytes = index.and_then(|index| self.elf.section_bytes(index)).unwrap_or_default();
        let words: Vec<u32> = info::words(bytes).collect();
        for [by, of] in words.as_chunks().0 {
            self.add_call(&symbols, *by, *of);
        }
        self.symbols = Some(symbols);
    }

    fn add_call(&mut self, symbols: &SymbolTable<'_>, by: u32, of: u32) {
        const UNDEFINED: usize = 0;
        let called = symbols.get(of as usize).filter(|symbol| symbol.st_shndx == UNDEFINED);
        let name = called.and_then(|called| symbols.name(&called)).filter(|name| !name.is_empty());
        let section = symbols.get(by as usize).map(|caller| caller.st_shndx);
        if let (Some(name), Some(section)) = (name, section)
            && let Some(name) = self.copy_name(name)
            && let Some(section) = self.code.get_mut(&section)
        {
            section.driver_calls.insert(name);
        }
    }

    /// Reads the attributes of the file and of its kernels.
    fn read_info(&mut self) {
        for (index, header) in self.elf.sections().iter().enumerate() {
            let Some(name) = self.elf.section_name(index).filter(|name| name.starts_with(INFO)) else {
                continue;
            };
            let Some(bytes) = self.elf.section_bytes(index) else { continue };
            if name == INFO {
                self.read_registers(bytes);
            } else if let Some(section) = self.code.get_mut(&(header.sh_info as usize)) {
                read_kernel(bytes, section);
            }
        }
    }

    fn read_registers(&mut self, info: &[u8]) {
        let Some(symbols) = self.symbols.as_ref() else { return };
        for (_, value) in info::attributes(info).filter(|(attribute, _)| *attribute == info::REGCOUNT) {
            let mut words = info::words(value);
            let (Some(symbol), Some(count)) = (words.next(), words.next()) else { continue };
            let section = symbols.get(symbol as usize).and_then(|symbol| self.code.get_mut(&symbol.st_shndx));
            if let Some(section) = section {
                section.registers = section.registers.max(Some(count));
            }
        }
    }

    /// Adds to the damage. What is damaged everywhere is reported in part.
    fn report(&mut self, what: String) {
        if self.damage.len() < MAX_DAMAGE && self.damage.last() != Some(&what) {
            self.damage.push(what);
        }
    }

    /// A copy of a name, unless names are together far longer than the file.
    fn copy_name(&mut self, name: &str) -> Option<String> {
        let Some(left) = self.names_left.checked_sub(name.len()) else {
            self.names_left = 0;
            self.report("its names are together far longer than itself".to_owned());
            return None;
        };
        self.names_left = left;
        Some(name.to_owned())
    }
}

/// Sorts functions and ends each where the next begins. All names of one offset remain.
fn cut_functions(functions: &mut Vec<CubinFunction>) {
    functions.sort_by(|a, b| (a.offset, b.is_kernel, &a.name).cmp(&(b.offset, a.is_kernel, &b.name)));
    functions.dedup();
    let mut next = u32::MAX;
    let mut here = u32::MAX;
    for function in functions.iter_mut().rev() {
        if function.offset != here {
            next = here;
            here = function.offset;
        }
        function.bytes = function.bytes.min(next - function.offset);
    }
}

/// Reads the attributes of a kernel.
fn read_kernel(bytes: &[u8], section: &mut CodeSection) {
    for (attribute, value) in info::attributes(bytes) {
        match attribute {
            info::KPARAM_INFO => section.parameters.extend(info::parameter(value)),
            info::PARAM_CBANK => section.parameters_offset = info::parameters_offset(value),
            info::INDIRECT_BRANCH_TARGETS => info::branch_targets(value, &mut section.branch_targets),
            _ => {}
        }
    }
    section.parameters.sort_unstable();
    section.parameters.dedup();
}
