//! Prints the rows of a recording's segment as JSON, one a line, with the table's name: `segment_rows rows.seg [TABLE]`.
//!
//! It shows a recording before it is finalized. `stallmap` reads captures only.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;

use arrow::json::LineDelimitedWriter;
use stallmap_schema::capture::segment::{SegmentFrame, SegmentReader};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: segment_rows rows.seg [TABLE]")?;
    let wanted = arguments.next();
    let reader = SegmentReader::open(Path::new(&path))?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut others = BTreeMap::new();
    for frame in reader.frames() {
        match reader.read(frame)? {
            SegmentFrame::Rows { table, batch } if wanted.as_deref().is_none_or(|wanted| wanted == table) => {
                let mut text = Vec::new();
                let mut writer = LineDelimitedWriter::new(&mut text);
                writer.write(&batch)?;
                writer.finish()?;
                for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
                    write!(out, "{{\"table\":\"{table}\",\"row\":")?;
                    out.write_all(line)?;
                    writeln!(out, "}}")?;
                }
            }
            SegmentFrame::Rows { .. } => {}
            SegmentFrame::Requests { .. } => *others.entry("frames of requests").or_insert(0_u64) += 1,
            SegmentFrame::Pages { .. } => *others.entry("frames of pages").or_insert(0) += 1,
        }
    }
    eprintln!("{others:?}, {} damaged places", reader.damages().len());
    Ok(())
}
