//! The statements: a table with the costs of each capture's launches, and the comparison over it.
//!
//! ```text
//! measure_*.sql (one metric, by launch, instruction or tensor) ──> PART.sql (keys)
//! sums.sql: sums by key and capture over launches that repeat each other ──> table diff_PART_METRIC
//! compare.sql: pairs with the first capture ──> intervals, what is noise, ranks
//! ```

use stallmap::library;
use stallmap::library::queries::diff as queries;

use stallmap_console::args::diff::{DiffDivisor, DiffMetric, DiffPart};
use stallmap_console::args::filter::ProgramPhase;

/// Measure of the parts: a metric, and whether samples count as time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiffMeasure {
    /// The metric.
    pub(super) metric: DiffMetric,
    /// True if samples are compared as time.
    pub(super) is_scaled: bool,
}

/// Common parameters of all statements of a comparison.
#[derive(Clone, Debug)]
pub(super) struct DiffQuery {
    /// The captures' names, the first one's first.
    pub(super) names: Vec<String>,
    /// Divisor of sums, never [`DiffDivisor::Auto`].
    pub(super) per: DiffDivisor,
    /// Rows that are not aggregated.
    pub(super) top: u32,
    /// True if all rows are listed.
    pub(super) is_all: bool,
    /// Relative variation of a launch between repetitions, without repeated launches.
    pub(super) spread: f64,
    /// The phase of the program, unless it is all of them.
    pub(super) phase: Option<ProgramPhase>,
}

/// Statements: tables to create, and the query over them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueryScript {
    /// `CREATE TABLE` statements.
    pub(super) tables: Vec<String>,
    /// The query.
    pub(super) query: String,
}

/// Level of one row of a table of measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MeasureLevel {
    Launch,
    Instruction,
    Tensor,
}

impl MeasureLevel {
    const fn for_part(part: DiffPart) -> Self {
        match part {
            DiffPart::Tensors | DiffPart::Roles => Self::Tensor,
            DiffPart::Instructions => Self::Instruction,
            DiffPart::Lines | DiffPart::Ops | DiffPart::Kernels | DiffPart::Aligned => Self::Launch,
        }
    }
}

/// Source of a metric in the views.
enum MetricFamily {
    /// In samples, which are counts.
    Cost,
    /// In nanoseconds.
    Time,
    /// In recorded accesses.
    Access,
    /// In launches.
    Count,
}

impl DiffMeasure {
    const fn family(self) -> MetricFamily {
        match self.metric {
            DiffMetric::Samples | DiffMetric::Memory => MetricFamily::Cost,
            DiffMetric::Time => MetricFamily::Time,
            DiffMetric::Sectors | DiffMetric::Bytes => MetricFamily::Access,
            DiffMetric::Launches => MetricFamily::Count,
        }
    }

    /// True if values are nanoseconds.
    pub(super) fn is_time(self) -> bool {
        self.metric == DiffMetric::Time || self.is_scaled && matches!(self.family(), MetricFamily::Cost)
    }

    /// Its title.
    pub(super) fn title(self) -> &'static str {
        match (self.metric, self.is_scaled) {
            (DiffMetric::Samples | DiffMetric::Time, true) | (DiffMetric::Time, _) => "time",
            (DiffMetric::Memory, true) => "time of memory stalls",
            (DiffMetric::Samples, _) => "samples",
            (DiffMetric::Memory, _) => "samples of memory stalls",
            (DiffMetric::Launches, _) => "launches",
            (DiffMetric::Sectors, _) => "sectors",
            (DiffMetric::Bytes, _) => "bytes",
        }
    }

    /// The table of measures of each launch, instruction or tensor.
    fn table(self, level: MeasureLevel) -> (String, String) {
        let is_access = matches!(self.family(), MetricFamily::Access);
        let (name, text) = match (level, is_access) {
            (MeasureLevel::Launch, _) => return ("diff_launch".to_owned(), queries::MEASURE_LAUNCH.body()),
            (MeasureLevel::Instruction, true) => ("instruction", queries::MEASURE_INSTRUCTION_ACCESS),
            (MeasureLevel::Instruction, false) => ("instruction", queries::MEASURE_INSTRUCTION_COST),
            (MeasureLevel::Tensor, true) => ("tensor", queries::MEASURE_TENSOR_ACCESS),
            (MeasureLevel::Tensor, false) => ("tensor", queries::MEASURE_TENSOR_COST),
        };
        let samples = match self.metric {
            DiffMetric::Memory => "CASE WHEN is_memory THEN s.samples ELSE 0.0 END",
            _ => "s.samples",
        };
        let (value, unit) = if self.is_time() {
            (format!("{samples} * t.sample_ns"), "t.sample_ns")
        } else {
            (samples.to_owned(), "1.0")
        };
        let is_time = matches!(self.family(), MetricFamily::Time).to_string();
        let column = if self.metric == DiffMetric::Bytes { "unique_bytes" } else { "sectors" };
        let text = text.body().replace("$value", &value).replace("$unit", unit).replace("$column", column);
        let text = text.replace("$is_time", &is_time);
        (format!("diff_{name}_{}", self.name()), text)
    }

    /// The columns of a launch's number and its variance.
    fn columns(self) -> (&'static str, &'static str) {
        match (self.metric, self.is_scaled) {
            (DiffMetric::Samples, false) => ("samples", "samples_variance"),
            (DiffMetric::Memory, false) => ("memory", "memory_variance"),
            (DiffMetric::Memory, true) => ("memory_time", "memory_time_variance"),
            (DiffMetric::Time, _) | (DiffMetric::Samples, true) => ("time", "time_variance"),
            (DiffMetric::Launches, _) => ("launches", "0.0"),
            (DiffMetric::Sectors, _) => ("sectors", "0.0"),
            (DiffMetric::Bytes, _) => ("bytes", "0.0"),
        }
    }

    /// The name in the names of tables.
    fn name(self) -> String {
        let scaled = if self.is_scaled { "_as_time" } else { "" };
        format!("{}{scaled}", self.metric.name())
    }
}

impl DiffQuery {
    /// Compares per this divisor: by steps that the captures have, as `asked` automatically, their repeated part.
    pub(super) fn compare_per(&mut self, per: DiffDivisor, asked: DiffDivisor) {
        self.per = per;
        if (asked, per) == (DiffDivisor::Auto, DiffDivisor::Step) {
            self.phase = Some(ProgramPhase::Steady);
        }
    }

    /// Facts of the captures, and their consequences for a metric.
    pub(super) fn comparable(&self, metric: DiffMetric) -> QueryScript {
        let measure = DiffMeasure { metric, is_scaled: false };
        let is_cost = matches!(measure.family(), MetricFamily::Cost);
        let verdict = |is_so: bool, verdict: &'static str| if is_so { verdict } else { "caution" };
        let family = match measure.family() {
            MetricFamily::Cost => "cost",
            MetricFamily::Time => "time",
            MetricFamily::Access => "access",
            MetricFamily::Count => "count",
        };
        let spread = format!("{} %", self.spread * 100.0);
        let query = self.fill(&queries::COMPARABLE.body().replace("$spread", &spread));
        let query = query
            .replace("$if_samples", verdict(is_cost, "not comparable"))
            .replace("$if_cost", verdict(is_cost, "normalized"))
            .replace(
                "$if_steps",
                verdict(matches!(self.per, DiffDivisor::Auto | DiffDivisor::Step), "normalized"),
            )
            .replace("$metric", measure.title())
            .replace("$family", family);
        QueryScript { tables: vec![table("diff_known", &self.fill(&queries::KNOWN.body()))], query }
    }

    /// The cost of everything. `unknown` are the missing metrics.
    pub(super) fn totals(&self, unknown: &[&str]) -> QueryScript {
        let unknown: Vec<String> = unknown.iter().map(|name| format!("'{name}'")).collect();
        let unknown = if unknown.is_empty() { "''".to_owned() } else { unknown.join(", ") };
        let rows = queries::TOTALS.body().replace("$unknown", &unknown);
        let rows = rows.replace("diff_launch", &self.table_name("diff_launch"));
        let launches = self.measures("diff_launch", &queries::MEASURE_LAUNCH.body());
        let name = self.table_name("diff_totals");
        let tables = vec![launches, alike(), table(&name, &self.sums(&rows, MeasureLevel::Launch))];
        QueryScript { tables, query: self.compare(&name, true) }
    }

    /// Work and speed in the change of time.
    pub(super) fn work(&self) -> QueryScript {
        let launches = self.measures("diff_launch", &queries::MEASURE_LAUNCH.body());
        let classes = self.fill(&queries::CLASSES.body()).replace("$per", self.unit());
        let classes =
            classes.replace("JOIN diff_launch", &format!("JOIN {}", self.table_name("diff_launch")));
        let name = self.table_name("diff_class");
        let query = self.fill(&queries::WORK.body()).replace("FROM diff_class", &format!("FROM {name}"));
        let tables = vec![launches, self.align(), table(&name, &self.launches(&classes))];
        QueryScript { tables, query: self.launches(&query) }
    }

    /// Lengths of steps.
    pub(super) fn steps(&self) -> QueryScript {
        QueryScript { tables: Vec::new(), query: self.fill(&queries::STEPS.body()) }
    }

    /// The table of launches with their counterparts in other captures.
    fn align(&self) -> String {
        table("diff_align", &self.fill(&queries::ALIGN.body()))
    }

    /// The cost of a part.
    pub(super) fn part(&self, part: DiffPart, measure: DiffMeasure) -> QueryScript {
        let level = MeasureLevel::for_part(part);
        let (made, measured) = measure.table(level);
        let source = self.table_name(&made);
        let name = self.table_name(&format!("diff_{}_{}", part.name(), measure.name()));
        let columns = match (level, measure.columns()) {
            (MeasureLevel::Launch, (value, variance)) => {
                format!("capture, kernel_id, {value} AS value, {variance} AS variance")
            }
            _ => "*".to_owned(),
        };
        let keys =
            keys(part).body().replace("FROM measured m", &format!("FROM (SELECT {columns} FROM {source}) m"));
        let mut tables = vec![self.measures(&made, &measured), alike()];
        if part == DiffPart::Aligned {
            tables.push(self.align());
        }
        tables.push(table(&name, &self.sums(&self.fill(&keys), level)));
        QueryScript { tables, query: self.compare(&name, self.is_all) }
    }

    /// Kernels that the rows of a part have in one capture only.
    pub(super) fn line_kernels(&self, part: &QueryScript) -> QueryScript {
        let table = part.tables.last().and_then(|table| table.split_whitespace().nth(2)).unwrap_or_default();
        let query = self.fill(&queries::LINE_KERNELS.body()).replace("$table", table);
        QueryScript { tables: part.tables.clone(), query }
    }

    fn compare(&self, table: &str, is_all: bool) -> String {
        let text = self.fill(&queries::COMPARE.body());
        let all = if is_all { "1" } else { "0" };
        self.launches(&text.replace("$table", table).replace("$per", self.unit()).replace("$all", all))
    }

    /// The table of measures, of the launches of the phase.
    fn measures(&self, name: &str, rows: &str) -> String {
        let name = &self.table_name(name);
        let Some(phase) = self.phase else { return table(name, rows) };
        let words = phase.words();
        let rows = rows.trim_end();
        table(
            name,
            &format!(
                "SELECT w.*\nFROM (\n{rows}\n) w\nJOIN every.launch_phase v ON v.capture = w.capture AND v.kernel_id = w.kernel_id\nWHERE v.program_phase IN ({words})"
            ),
        )
    }

    /// A query that counts launches and steps, of those of the phase.
    fn launches(&self, text: &str) -> String {
        let Some(phase) = self.phase else { return text.to_owned() };
        let words = phase.words();
        let launches = format!(
            "FROM (\n    SELECT w.*\n    FROM every.launch w\n    JOIN every.launch_phase v ON v.capture = w.capture AND v.kernel_id = w.kernel_id\n    WHERE v.program_phase IN ({words})\n  ) l\n"
        );
        // The span of the timeline is that of all phases.
        text.replace("FROM every.launch l\n", &launches)
            .replace("CAST(max(span_ns) AS DOUBLE) AS span", "CAST(NULL AS DOUBLE) AS span")
    }

    /// The name of a table whose rows depend on the phase and the divisor: a session may have it for several.
    fn table_name(&self, name: &str) -> String {
        let phase = self.phase.map(|phase| format!("_{}", phase.name())).unwrap_or_default();
        let per = if self.per == DiffDivisor::Step { "_by_step" } else { "" };
        format!("{name}{phase}{per}")
    }

    /// Sums of rows with keys. A launch has one row of a key, or several where rows are parts of launches.
    fn sums(&self, rows: &str, level: MeasureLevel) -> String {
        let parts = match level {
            MeasureLevel::Launch => {
                "  SELECT capture, kernel_id, key, what, detail, detail AS last_detail, value, variance FROM measured_row"
            }
            MeasureLevel::Instruction | MeasureLevel::Tensor => {
                "  SELECT
    capture, kernel_id, key, min(what) AS what, min(detail) AS detail, max(detail) AS last_detail,
    sum(value) AS value, sum(variance) AS variance
  FROM measured_row
  GROUP BY capture, kernel_id, key"
            }
        };
        let text = queries::SUMS.body().replace("$rows", rows.trim_end()).replace("$parts", parts);
        text.replace("$per", self.unit())
    }

    /// The divisor of sums.
    const fn unit(&self) -> &'static str {
        match self.per {
            DiffDivisor::Auto | DiffDivisor::Total => "total",
            DiffDivisor::Step => "step",
            DiffDivisor::Launch => "launch",
        }
    }

    fn fill(&self, text: &str) -> String {
        let base = self.names.first().map_or("", String::as_str);
        text.replace("$captures", &self.names.len().to_string())
            .replace("$base", base)
            .replace("$top", &self.top.to_string())
            .replace("$spread", &format!("{:?}", self.spread))
    }
}

impl QueryScript {
    /// The statements as a user can run them.
    pub(super) fn text(&self) -> String {
        let statements: Vec<&str> = self.tables.iter().chain([&self.query]).map(String::as_str).collect();
        statements.join(";\n") + ";\n"
    }
}

fn table(name: &str, rows: &str) -> String {
    format!("CREATE TABLE {name} AS\n{rows}")
}

/// The table of launches that repeat each other.
fn alike() -> String {
    table("diff_alike", &queries::ALIKE.body())
}

/// The query that gives the rows of a part their keys.
pub(super) const fn keys(part: DiffPart) -> library::queries::CommandQuery {
    match part {
        DiffPart::Tensors => queries::TENSORS,
        DiffPart::Roles => queries::ROLES,
        DiffPart::Lines => queries::LINES,
        DiffPart::Ops => queries::OPS,
        DiffPart::Kernels => queries::KERNELS,
        DiffPart::Aligned => queries::ALIGNED,
        DiffPart::Instructions => queries::INSTRUCTIONS,
    }
}
