//! Machine code of a capture: which instructions its functions consist of, and which of them waits for which.
//!
//! ```text
//! function, module ── read ── cubins ── sections ──┬── held in the cache? ──┬── findings ── table ── SQL
//!                                                  └── analyze (sass) ──────┘
//! ```
//!
//! Everything is read and analyzed on first use, once per section content, on all cores. Captures are untrusted:
//! unreadable code is a function without rows but with a reason.

mod barriers;
mod cache;
pub mod derived;
mod explain;
mod file;
mod findings;
mod read;
mod rows;
mod section;
pub mod table;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use rayon::prelude::*;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::contained::contained;
use stallmap_schema::id::FunctionId;
use tokio::sync::OnceCell;

pub use self::cache::ResultCache;
pub use self::findings::{MemoryInstruction, SectionFindings};
use self::read::FoundSection;
pub use self::section::{SectionCode, SectionFunction, SectionLines};
use stallmap_tables::error::TableError;

/// The machine code of one capture, analyzed on first use.
#[derive(Debug)]
pub struct CaptureCode {
    reader: CaptureReader,
    cache: ResultCache,
    analyzed: OnceCell<Arc<AnalyzedSection>>,
}

/// Result of the analysis.
#[derive(Debug, Default)]
pub struct AnalyzedSection {
    /// The sections that hold the capture's functions.
    pub sections: Vec<SectionCode>,
    /// Functions whose code could not be read, with the reason.
    pub missing: Vec<(FunctionId, String)>,
    /// Statistics of the cache.
    pub cached: CacheStatistics,
}

/// Statistics of the cache: each section content counts once.
#[derive(Debug, Default)]
pub struct CacheStatistics {
    /// Contents whose findings were there.
    pub found: usize,
    /// Contents that were analyzed.
    pub computed: usize,
    /// Reason why some results could not be cached.
    pub failure: Option<io::Error>,
}

impl CaptureCode {
    /// The code of a capture.
    pub fn new(reader: CaptureReader, cache: ResultCache) -> Self {
        Self { reader, cache, analyzed: OnceCell::new() }
    }

    /// The analysis, computed on first use.
    pub async fn analyzed(&self) -> Result<Arc<AnalyzedSection>, TableError> {
        let analyze = async || Ok(Arc::new(analyze(&self.reader, &self.cache)?));
        self.analyzed.get_or_try_init(analyze).await.map(Arc::clone)
    }

    /// Number of instructions. None before the analysis.
    pub fn instruction_count(&self) -> Option<usize> {
        let sections = &self.analyzed.get()?.sections;
        Some(sections.iter().map(SectionCode::instruction_count).sum())
    }
}

/// Reads and analyzes the code of a capture that is not in the cache.
pub fn analyze(reader: &CaptureReader, cache: &ResultCache) -> Result<AnalyzedSection, TableError> {
    let read::CaptureSections { found, mut missing } = read::read(reader)?;
    let keyed: Vec<_> = found
        .into_par_iter()
        .map(|found| (section::key(&found.code, &found.section, found.sm), found))
        .collect();
    // One section represents all with the same content.
    let distinct: BTreeMap<[u8; 32], &FoundSection> =
        keyed.iter().map(|(key, found)| (*key.as_bytes(), found)).collect();
    let findings: BTreeMap<[u8; 32], AnalysisOutcome> =
        distinct.into_par_iter().map(|(key, found)| (key, outcome(&key.into(), found, cache))).collect();
    let mut cached = CacheStatistics::default();
    let (mut known, mut refused) = (BTreeMap::new(), BTreeMap::new());
    for (key, outcome) in findings {
        match outcome {
            AnalysisOutcome::Found(_) => cached.found += 1,
            _ => cached.computed += 1,
        }
        match outcome {
            AnalysisOutcome::Found(findings) | AnalysisOutcome::Computed(findings, Ok(())) => {
                known.insert(key, findings)
            }
            AnalysisOutcome::Computed(findings, Err(error)) => {
                cached.failure.get_or_insert(error);
                known.insert(key, findings)
            }
            AnalysisOutcome::Refused(reason) => {
                refused.insert(key, reason);
                None
            }
        };
    }
    let mut sections = Vec::new();
    for (key, found) in keyed {
        let FoundSection { module_id, sm, section, code, functions, lines } = found;
        if let Some(findings) = known.get(key.as_bytes()) {
            let findings = Arc::clone(findings);
            let name = section.name;
            sections.push(SectionCode { module_id, name, sm, code, functions, findings, lines });
        } else {
            let reason = refused.get(key.as_bytes()).cloned().unwrap_or_default();
            missing.extend(functions.iter().map(|function| (function.function_id, reason.clone())));
        }
    }
    Ok(AnalyzedSection { sections, missing, cached })
}

/// Origin of the analysis of a section.
enum AnalysisOutcome {
    Found(Arc<SectionFindings>),
    /// Computed, with the result of caching it.
    Computed(Arc<SectionFindings>, io::Result<()>),
    /// Not computed, with the reason.
    Refused(String),
}

fn outcome(key: &blake3::Hash, found: &FoundSection, cache: &ResultCache) -> AnalysisOutcome {
    if let Some(findings) = cache.get(key) {
        return AnalysisOutcome::Found(Arc::new(findings));
    }
    let analysis =
        contained(|| stallmap_sass::slice::analysis::analyze(&found.code, &found.section, found.sm)).ok();
    let analysis = match analysis {
        Some(Ok(analysis)) => analysis,
        Some(Err(error)) => return AnalysisOutcome::Refused(error.to_string()),
        None => return AnalysisOutcome::Refused("its analysis gave up".to_owned()),
    };
    let findings = SectionFindings::from_analysis(analysis);
    let stored = cache.put(key, &findings);
    AnalysisOutcome::Computed(Arc::new(findings), stored)
}
