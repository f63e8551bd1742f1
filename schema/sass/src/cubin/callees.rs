//! Functions that a kernel may execute.

use std::collections::{BTreeMap, BTreeSet};

use super::{CodeSection, Cubin};

/// The functions that each kernel of a cubin may execute: those in its section, those whose address its code takes, those
/// that their code takes, and those whose address stands in data. A function that a kernel launches is among them.
#[derive(Clone, Debug)]
pub struct KernelCallees<'a> {
    cubin: &'a Cubin,
    /// Sections by the functions in them.
    sections: BTreeMap<&'a str, &'a CodeSection>,
}

impl<'a> KernelCallees<'a> {
    /// Callees in a cubin. `None` where a part of it is damaged: a call may stand there.
    pub fn new(cubin: &'a Cubin) -> Option<Self> {
        if !cubin.damage.is_empty() {
            return None;
        }
        let named = |section: &'a CodeSection| {
            section.functions.iter().map(move |code| (code.name.as_str(), section))
        };
        Some(Self { cubin, sections: cubin.sections.iter().flat_map(named).collect() })
    }

    /// Functions of one kernel, itself too. `None` where the cubin has no such function.
    pub fn for_kernel(&self, kernel: &str) -> Option<BTreeSet<&'a str>> {
        let mut waiting = vec![*self.sections.get(kernel)?];
        waiting.extend(self.cubin.pointed.iter().filter_map(|name| self.sections.get(name.as_str())));
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        while let Some(section) = waiting.pop() {
            if !seen.insert(&raw const *section) {
                continue;
            }
            found.extend(section.functions.iter().map(|code| code.name.as_str()));
            waiting.extend(section.references.values().filter_map(|name| self.sections.get(name.as_str())));
        }
        Some(found)
    }
}
