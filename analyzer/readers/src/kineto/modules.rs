//! Modules around ops: calls with names such as `nn.Module: Linear_0`, within each other.

use std::collections::HashMap;
use std::rc::Rc;

use crate::model::{RowLink, TraceCall, TraceModel};
use crate::nest::{enclosing, parents};

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
        let callers = parents(&self.0);
        let mut paths: HashMap<usize, Rc<str>> = HashMap::new();
        let found = enclosing(&self.0, &trace.ops);
        for (op, inner) in trace.ops.iter_mut().zip(found) {
            let Some(inner) = inner.get() else { continue };
            let path = paths.entry(inner).or_insert_with(|| self.path(inner, &callers).into());
            op.details_mut().module = Some(Rc::clone(path));
        }
    }

    /// Names from the outermost module to a call.
    fn path(&self, inner: usize, callers: &[RowLink]) -> String {
        let calls = std::iter::successors(Some(inner), |call| callers.get(*call)?.get());
        let names = calls.take(MAX_MODULES).filter_map(|call| self.0.get(call));
        let mut names: Vec<&str> = names.map(|(_, name)| name.trim_start_matches(MODULE)).collect();
        names.reverse();
        names.join(".")
    }
}
