//! Commands over many captures: `stallmap trend`, and `--over` of `top`, `report` and `diff`.
//!
//! ```text
//! captures ── fleet ──> trend_point, trend, cost_total (SQL over all captures)
//!   ├── trend: series ──> picture, rows, changes, and history ──> gates
//!   ├── top, report: costs of all captures together
//!   └── choose: two captures by label ──> `diff`
//! ```

mod choose;
mod costs;
mod gate;
mod history;
mod open;
mod picture;
mod report;
mod series;
mod top;

pub use choose::choose;
pub use costs::run as trend;
pub use open::{open, say_skipped};
pub use report::run as report;
pub use top::run as top;
