//! Rules of the planner that stop at the end of their statement.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::{ConfigOnlyContext, PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::ExecutionPlan;

use crate::planning::bounds::ending::check;

/// A rule that asks for the end before it is applied: to a plan, or to each step of one.
#[derive(Debug)]
struct EndedRule<R>(R);

type AnalyzerRuleRef = Arc<dyn AnalyzerRule + Send + Sync>;
type OptimizerRuleRef = Arc<dyn OptimizerRule + Send + Sync>;
type PhysicalRuleRef = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// A rule of the analyzer.
pub fn analyzing(rule: AnalyzerRuleRef) -> AnalyzerRuleRef {
    Arc::new(EndedRule(rule))
}

/// A rule of the optimizer.
pub fn optimizing(rule: OptimizerRuleRef) -> OptimizerRuleRef {
    Arc::new(EndedRule(rule))
}

/// A rule of the physical optimizer.
pub fn physical(rule: PhysicalRuleRef) -> PhysicalRuleRef {
    Arc::new(EndedRule(rule))
}

impl AnalyzerRule for EndedRule<AnalyzerRuleRef> {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        check()?;
        self.0.analyze(plan, config)
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

impl OptimizerRule for EndedRule<OptimizerRuleRef> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        check()?;
        self.0.rewrite(plan, config)
    }
}

impl PhysicalOptimizerRule for EndedRule<PhysicalRuleRef> {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.optimize_with_context(plan, &ConfigOnlyContext::new(config))
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        check()?;
        self.0.optimize_with_context(plan, context)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::RecordBatch;
    use datafusion::execution::session_state::SessionStateBuilder;
    use datafusion::optimizer::{Analyzer, Optimizer};
    use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::planning::bounds::ending::StatementEnd;

    const ENDED: &str = "the statement ended before its answer";

    #[derive(Clone, Copy)]
    enum PlanPart {
        Analyzer,
        Optimizer,
        Physical,
    }

    /// A session of which one part asks for the end.
    fn session(part: PlanPart) -> SessionContext {
        let builder = SessionStateBuilder::new().with_default_features();
        let builder = match part {
            PlanPart::Analyzer => {
                builder.with_analyzer_rules(Analyzer::new().rules.into_iter().map(analyzing).collect())
            }
            PlanPart::Optimizer => {
                builder.with_optimizer_rules(Optimizer::new().rules.into_iter().map(optimizing).collect())
            }
            PlanPart::Physical => builder.with_physical_optimizer_rules(
                PhysicalOptimizer::new().rules.into_iter().map(physical).collect(),
            ),
        };
        SessionContext::new_with_state(builder.build())
    }

    #[tokio::test]
    async fn each_part_of_planning_stops_at_the_end() {
        for part in [PlanPart::Analyzer, PlanPart::Optimizer, PlanPart::Physical] {
            let context = session(part);
            let frame = context.sql("SELECT 1 + a FROM (VALUES (1), (2)) t (a) WHERE a > 1").await.unwrap();
            let ending = StatementEnd::default();
            let rows = ending.clone().within(frame.clone().collect()).await.unwrap();
            assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
            ending.end();
            let error = ending.within(frame.clone().collect()).await.unwrap_err().to_string();
            assert!(error.contains(ENDED), "{error}");
            let past = StatementEnd::at(std::time::Instant::now());
            assert!(past.within(frame.clone().collect()).await.is_err());
            frame.collect().await.unwrap();
        }
    }
}
