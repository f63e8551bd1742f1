//! TEMPORARY
use crate::message::Messages;
use std::path::Path;
pub(crate) fn finish(_a: &Path, _b: &Path, _f: bool, _m: Messages) -> anyhow::Result<()> {
    anyhow::bail!("not yet")
}
pub(crate) fn recover(_a: &Path, _b: &Path, _f: bool, _m: Messages) -> anyhow::Result<()> {
    anyhow::bail!("not yet")
}
