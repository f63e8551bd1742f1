//! Identities that are hashes of names, computed from the new names by the rules of `hash`.

use std::collections::BTreeMap;

use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::hash;
use stallmap_schema::id::{FrameId, ModuleId};
use stallmap_schema::tables::code::{Function, Module};
use stallmap_schema::tables::python::{PythonFrame, PythonState};

use super::words::WordRedactor;
use super::{AlsoRedact, CubinSymbols, RedactOptions, cubin};

/// Maximum rows of the name tables in memory.
const MAX_ROWS: usize = 4 << 20;

/// Old identities and new ones.
#[derive(Debug, Default)]
pub(super) struct IdentityMap {
    frames: BTreeMap<u64, u64>,
    stacks: BTreeMap<u64, u64>,
    /// Also the new name of each function.
    functions: BTreeMap<u64, (u64, String)>,
}

impl IdentityMap {
    /// Identities of a capture's frames, stacks and functions.
    pub(super) fn from_capture(
        reader: &CaptureReader,
        words: &mut WordRedactor,
        options: &RedactOptions,
        cubins: &CubinSymbols,
    ) -> Result<Self, CaptureError> {
        let mut identities = Self::default();
        let with_symbols = options.also.contains(&AlsoRedact::Symbols);
        reader.for_each_row(MAX_ROWS, |frame: PythonFrame| {
            let file = file(&frame, words);
            let function = if with_symbols {
                python_function(&frame.function, words)
            } else {
                words.scrub(&frame.function)
            };
            let new = hash::frame_id(&file, &function, frame.first_line, frame.line);
            identities.frames.insert(frame.frame_id.0, new.0);
        })?;
        let mut stacks: BTreeMap<u64, Vec<(u32, FrameId)>> = BTreeMap::new();
        reader.for_each_row(MAX_ROWS, |state: PythonState| {
            let frame = FrameId(identities.frame(state.frame_id.0));
            stacks.entry(state.pystates_hash.0).or_default().push((state.depth, frame));
        })?;
        for (old, mut frames) in stacks {
            frames.sort_unstable();
            let frames: Vec<FrameId> = frames.into_iter().map(|(_, frame)| frame).collect();
            identities.stacks.insert(old, hash::pystates_hash(&frames).0);
        }
        if with_symbols {
            identities.name_functions(reader, words, cubins)?;
        }
        Ok(identities)
    }

    /// New names of functions, from their cubins.
    fn name_functions(
        &mut self,
        reader: &CaptureReader,
        words: &WordRedactor,
        cubins: &CubinSymbols,
    ) -> Result<(), CaptureError> {
        let mut files: BTreeMap<ModuleId, String> = BTreeMap::new();
        reader.for_each_row(MAX_ROWS, |module: Module| {
            files.extend(module.file.map(|file| (module.module_id, file)));
        })?;
        reader.for_each_row(MAX_ROWS, |function: Function| {
            let names = files.get(&function.module_id).and_then(|file| cubins.get(file)?.as_ref());
            let renamed = names.and_then(|names| names.get(&function.name)).cloned();
            let name = renamed.unwrap_or_else(|| cubin::alias(&function.name, words));
            let new = hash::function_id(function.module_id, &name);
            self.functions.insert(function.function_id.0, (new.0, name));
        })
    }

    /// A frame's new identity.
    pub(super) fn frame(&self, old: u64) -> u64 {
        self.frames.get(&old).copied().unwrap_or(old)
    }

    /// A stack's new identity. A stack without frames in the capture gets a hash of its old identity.
    pub(super) fn stack(&self, old: u64, words: &WordRedactor) -> u64 {
        self.stacks.get(&old).copied().unwrap_or_else(|| {
            let mut noise = [0; 8];
            words.noise(&old.to_le_bytes(), &mut noise);
            u64::from_le_bytes(noise)
        })
    }

    /// A function's new identity.
    pub(super) fn function(&self, old: u64) -> u64 {
        self.functions.get(&old).map_or(old, |(new, _)| *new)
    }

    /// A function's new name, if any.
    pub(super) fn function_name(&self, old: u64) -> Option<&str> {
        self.functions.get(&old).map(|(_, name)| name.as_str())
    }
}

/// A frame's file. A path relative to installed packages identifies a user only together with the location of the
/// packages.
pub(super) fn file(frame: &PythonFrame, words: &mut WordRedactor) -> String {
    let file = words.path(&frame.file);
    words.named(&file)
}

/// Names that Python gives.
const PYTHON: [&str; 6] = ["<module>", "<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"];

/// A Python function's new name.
pub(super) fn python_function(name: &str, words: &WordRedactor) -> String {
    if PYTHON.contains(&name) { name.to_owned() } else { format!("p-{}", words.alias(name)) }
}
