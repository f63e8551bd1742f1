//! Modules around ops: calls with names such as `nn.Module: Linear_0`, within each other.

use std::collections::HashMap;
use std::rc::Rc;

use crate::join::span;
use crate::model::{TraceCall, TraceModel};
use crate::nest::{ThreadSpan, enclosing, parents};

/// The begin of the name of a module's call.
const MODULE: &str = "nn.Module: ";
/// Modules of a path. Deeper ones lose their outer modules.
const MAX_MODULES: usize = 64;

/// Calls of modules with their names.
#[derive(Debug, Default)]
pub(super) struct ModuleCalls(Vec<(TraceCall, Rc<str>)>);

impl ModuleCalls {
    /// Adds a call. False if it is not one of a module.
    pub(super) fn add(&mut self, call: TraceCall, name: &Rc<str>) -> bool {
        let is_module = name.starts_with(MODULE);
        if is_module {
            self.0.push((call, name.clone()));
        }
        is_module
    }

    /// Gives ops the path of the modules around them.
    pub(super) fn join(&self, trace: &mut TraceModel) {
        let spans: Vec<ThreadSpan> = self.0.iter().map(|(call, _)| span(*call)).collect();
        let callers = parents(&spans);
        let ops: Vec<ThreadSpan> = trace.ops.iter().map(|op| span(op.call)).collect();
        let mut paths: HashMap<usize, Rc<str>> = HashMap::new();
        for (op, inner) in trace.ops.iter_mut().zip(enclosing(&spans, &ops)) {
            op.module = inner
                .map(|inner| paths.entry(inner).or_insert_with(|| self.path(inner, &callers).into()).clone());
        }
    }

    /// Names from the outermost module to a call.
    fn path(&self, inner: usize, callers: &[Option<usize>]) -> String {
        let calls = std::iter::successors(Some(inner), |call| callers.get(*call).copied().flatten());
        let names = calls.take(MAX_MODULES).filter_map(|call| self.0.get(call));
        let mut names: Vec<&str> = names.map(|(_, name)| name.trim_start_matches(MODULE)).collect();
        names.reverse();
        names.join(".")
    }
}
