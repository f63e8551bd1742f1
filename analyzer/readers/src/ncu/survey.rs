//! The first reading of a page: how its numbers are written, and a record in which the file ends.

use std::io::{self, Read};

use crate::error::{ReadError, ReadResult};
use crate::formats::input::ImportInput;
use csv::StringRecord;

use super::separator::SeparatorEvidence;
use super::{DESCRIBED, page_from, reader};

/// Facts about a page that its metrics need before they are read.
#[derive(Debug, Default)]
pub(super) struct PageSurvey {
    pub(super) evidence: SeparatorEvidence,
    /// The begin of a last record that is not whole: in the page, and in the file.
    cut: Option<(u64, u64)>,
}

impl PageSurvey {
    /// Surveys a page. A record that cannot be read is an error when it is read again.
    pub(super) fn read(input: &ImportInput, header: &StringRecord, is_raw: bool) -> ReadResult<Self> {
        let mut survey = Self::default();
        let mut last: Option<StringRecord> = None;
        for record in reader(input)?.records().skip(1 + usize::from(is_raw)).map_while(Result::ok) {
            if let Some(whole) = last.replace(record) {
                survey.add(&whole, header, is_raw);
            }
        }
        let Some(last) = last else { return Ok(survey) };
        let (mut page, at) = page_from(input)?;
        let begin = begin(&last);
        let is_cut = ends_in_record(&mut page, begin, last.len() < header.len());
        let is_cut =
            is_cut.map_err(|error| ReadError::io(error, format!("read `{}`", input.path.display())))?;
        if is_cut {
            survey.cut = Some((begin, at + begin));
        } else {
            survey.add(&last, header, is_raw);
        }
        Ok(survey)
    }

    /// The position of a record in which the file ends. None for another one.
    pub(super) fn cut_at(&self, record: &StringRecord) -> Option<u64> {
        self.cut.filter(|(cut, _)| *cut == begin(record)).map(|(_, at)| at)
    }

    fn add(&mut self, record: &StringRecord, header: &StringRecord, is_raw: bool) {
        let is_metric = |name: &str| !DESCRIBED.contains(&name) && (is_raw || name == "Metric Value");
        let metrics = header.iter().zip(record).filter(|(name, _)| is_metric(name));
        metrics.for_each(|(_, text)| self.evidence.add(text));
    }
}

/// The position of a record in its page.
fn begin(record: &StringRecord) -> u64 {
    record.position().map_or(0, csv::Position::byte)
}

/// True if a page ends within a quote of its last record, or in a short one that no line break ends.
fn ends_in_record(page: &mut impl Read, begin: u64, is_short: bool) -> io::Result<bool> {
    io::copy(&mut page.take(begin), &mut io::sink())?;
    let mut record = Vec::new();
    // Records are bounded.
    page.read_to_end(&mut record)?;
    let is_in_quote = record.iter().fold(false, |is_open, byte| is_open != (*byte == b'"'));
    let is_open = match record.last() {
        Some(b'\n') => false,
        Some(b',') => true,
        _ => is_short,
    };
    Ok(is_in_quote || is_open)
}
