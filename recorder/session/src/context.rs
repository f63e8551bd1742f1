//! Context of this thread: the innermost op or region and its Python stack.
//!
//! Python pushes and pops. The launch callback, on the same thread, reads without taking the GIL.

use std::cell::RefCell;

use stallmap_schema::id::{OpId, PystatesHash};

use crate::session;

/// One op or region that is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpContext {
    /// The op.
    pub op_id: OpId,
    /// The Python stack of its call.
    pub pystates_hash: Option<PystatesHash>,
    /// Hash of the shapes of its arguments, valid in this process. 0 for regions, and where the recording needs no
    /// kinds of launches.
    pub shapes_hash: u64,
}

thread_local! {
    static STACK: RefCell<(usize, Vec<OpContext>)> = const { RefCell::new((0, Vec::new())) };
    static REGIONS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Begins an op on this thread.
pub fn push(context: OpContext) {
    with_stack(|stack| stack.push(context));
}

/// Ends an op on this thread, and with it every op that was begun after it and never ended.
pub fn pop(op_id: OpId) {
    with_stack(|stack| {
        if let Some(at) = stack.iter().rposition(|context| context.op_id == op_id) {
            stack.truncate(at);
        }
    });
}

/// The innermost op of this thread.
pub fn current() -> Option<OpContext> {
    let last = |stack: &RefCell<(usize, Vec<OpContext>)>| {
        let stack = stack.try_borrow().ok()?;
        // What ran when the process was forked runs in its parent.
        stack.1.last().copied().filter(|_| stack.0 == session::generation())
    };
    STACK.try_with(last).ok().flatten()
}

/// Runs `body` as if this thread were in another context, or in none.
pub fn within<T>(context: Option<OpContext>, body: impl FnOnce() -> T) -> T {
    let mut own = Vec::from_iter(context);
    with_stack(|stack| std::mem::swap(stack, &mut own));
    let result = body();
    with_stack(|stack| std::mem::swap(stack, &mut own));
    result
}

/// Region of the trials of a tuner, which are not recorded: with the recorder's code in it, a kernel is another one.
pub const TUNING_REGION: &str = "(trials of a tuner)";

/// Begins a region named by the user, for the selection of launches.
pub fn region_enter(name: &str) {
    if let Err(_gone) = REGIONS.try_with(|regions| regions.borrow_mut().push(name.to_owned())) {
        session::lose_region();
    }
}

/// Ends the innermost region of that name.
pub fn region_exit(name: &str) {
    let exit = REGIONS.try_with(|regions| {
        let mut regions = regions.borrow_mut();
        if let Some(at) = regions.iter().rposition(|region| region == name) {
            regions.truncate(at);
        }
    });
    if exit.is_err() {
        session::lose_region();
    }
}

/// True if this thread is in a region of that name.
pub fn in_region(name: &str) -> bool {
    REGIONS.try_with(|regions| regions.borrow().iter().any(|region| region == name)).unwrap_or(false)
}

fn with_stack(change: impl FnOnce(&mut Vec<OpContext>)) {
    // A thread that is ending has no stack any more. Its launches are recorded without an op.
    let change = |stack: &RefCell<(usize, Vec<OpContext>)>| {
        let (generation, stack) = &mut *stack.borrow_mut();
        if *generation != session::generation() {
            *generation = session::generation();
            stack.clear();
        }
        change(stack);
    };
    if STACK.try_with(change).is_err() {
        session::lose_region();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_op_that_never_ended_does_not_survive_its_parent() {
        let op = |id| OpContext { op_id: OpId(id), pystates_hash: None, shapes_hash: 0 };
        push(op(1));
        push(op(2));
        push(op(3));
        pop(OpId(2));
        assert_eq!(current(), Some(op(1)));
        pop(OpId(1));
        assert_eq!(current(), None);
    }

    #[test]
    fn another_context_lasts_as_long_as_its_body() {
        let op = |id| OpContext { op_id: OpId(id), pystates_hash: None, shapes_hash: 0 };
        push(op(7));
        assert_eq!(within(Some(op(8)), current), Some(op(8)));
        assert_eq!(within(None, current), None);
        assert_eq!(current(), Some(op(7)));
        pop(OpId(7));
    }

    #[test]
    fn regions_nest() {
        region_enter("step");
        region_enter("attention");
        assert!(in_region("step"));
        region_exit("step");
        assert!(!in_region("attention"));
    }
}
