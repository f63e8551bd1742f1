//! The DataFusion context of a session: its settings, rules, functions and resources.

use std::sync::Arc;

use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::optimizer::Analyzer;
use datafusion::prelude::{SessionConfig, SessionContext};
use object_store::memory::InMemory;
use stallmap_engine::launches::of_launches;
use stallmap_tables::captured::STORE;
use stallmap_tables::functions::bounded;
use stallmap_tables::functions::concat;
use stallmap_tables::functions::constant::LargeConstants;
use stallmap_tables::functions::first_words::FirstWords;
use stallmap_tables::functions::hex_text::HexText;
use stallmap_tables::functions::memory::QueryMemory;
use stallmap_tables::functions::patterns::BoundedPatterns;
use stallmap_tables::guard::GuardScans;
use stallmap_tables::planning::bounds::ending::follow_tasks;
use stallmap_tables::planning::bounds::rules::{analyzing, optimizing, physical};
use stallmap_tables::planning::keys::KeysOfJoins;
use stallmap_tables::planning::pauses::JoinPauses;
use stallmap_tables::pool;
use stallmap_tables::work::SessionWork;

use super::CATALOG;
use super::made::MadeTables;
use super::resources::SessionResources;
use crate::error::AnalyzeError;

/// The context of a session, before it has captures.
pub(super) fn context(first: &str, resources: &SessionResources) -> Result<SessionContext, AnalyzeError> {
    let mut config = SessionConfig::new()
        .with_information_schema(true)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema(CATALOG, first)
        .with_extension(Arc::new(SessionWork::default()))
        .with_extension(Arc::new(MadeTables::default()));
    config.options_mut().execution.parquet.pushdown_filters = true;
    pool::fit_merges(&mut config, resources.memory_bytes);
    // A file for each batch that a repartition puts aside. With longer files, two writers and a reader wait for each
    // other, and the query never ends (apache/datafusion#24883, mended after 55.2).
    config.options_mut().set("datafusion.execution.max_spill_file_size_bytes", "1")?;
    // DataFusion 55.2 pushes filters that a hash join finds at run time past outer joins, and loses rows that match.
    config.options_mut().set("datafusion.optimizer.enable_dynamic_filter_pushdown", "false")?;
    // The sizes of `stallmap_tables::planning::sizes`.
    config.options_mut().optimizer.use_statistics_registry = true;
    // The filters of `KeysOfJoins`.
    config.options_mut().optimizer.enable_join_dynamic_filter_pushdown = true;
    let mut rules = Analyzer::new().rules;
    rules.insert(0, Arc::new(HexText));
    rules.insert(1, Arc::new(FirstWords));
    let memory = QueryMemory(resources.memory_bytes);
    rules.push(Arc::new(BoundedPatterns(memory)));
    follow_tasks();
    let state = SessionStateBuilder::new_with_default_features()
        .with_config(config)
        .with_expr_planners(concat::planners(memory))
        .with_runtime_env(pool::runtime(resources.memory_bytes)?)
        .with_statistics_registry(stallmap_tables::planning::sizes::registry())
        .with_query_planner(Arc::new(stallmap_tables::planning::sizes::EstimatingPlanner))
        .with_analyzer_rules(rules.into_iter().map(analyzing).collect())
        .with_optimizer_rules(stallmap_tables::planning::nulls::rules().into_iter().map(optimizing).collect())
        .with_optimizer_rule(Arc::new(LargeConstants::default()))
        .with_physical_optimizer_rules(
            stallmap_tables::planning::rule::rules().into_iter().map(physical).collect(),
        )
        .with_physical_optimizer_rule(Arc::new(KeysOfJoins::new(of_launches)))
        .with_physical_optimizer_rule(Arc::new(JoinPauses))
        .with_physical_optimizer_rule(Arc::new(GuardScans))
        .build();
    let context = SessionContext::new_with_state(state);
    for function in bounded::functions(memory) {
        context.register_udf(function);
    }
    for function in stallmap_tables::functions::functions() {
        context.register_udf(function.as_ref().clone());
    }
    context.register_udf(resources.cost_from.function());
    for aggregate in stallmap_tables::functions::aggregates() {
        context.register_udaf(aggregate);
    }
    for window in stallmap_tables::functions::windows() {
        context.register_udwf(window);
    }
    let store = ObjectStoreUrl::parse(STORE)?;
    context.register_object_store(store.as_ref(), Arc::new(InMemory::new()));
    Ok(context)
}
