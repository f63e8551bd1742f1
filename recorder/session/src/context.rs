//! Context of this thread: the innermost op or region and its Python stack.
//!
//! Python and NVTX push and pop. The launch callback, on the same thread, reads without taking the GIL.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stallmap_schema::id::{NativeStack, OpId, PystatesHash};

use crate::{frames, native, ranges, session};

/// One op or region that is running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpContext {
    /// The op or region. None outside of all.
    pub op_id: Option<OpId>,
    /// The Python stack of its call, or of the launch.
    pub pystates_hash: Option<PystatesHash>,
    /// Hash of the shapes of its arguments, valid in this process. 0 for regions, and where the recording needs no
    /// kinds of launches.
    pub shapes_hash: u64,
    /// The native stack of a launch that no op explains.
    pub native_stack: Option<NativeStack>,
}

/// The context of an op or region that is on the stack.
struct StackedContext {
    context: OpContext,
    /// True for ops, whose launches are theirs whatever ranges begin inside them.
    is_op: bool,
    /// Set when a range has ended, by any thread. None for ops and regions that end in order.
    ended: Option<Arc<AtomicBool>>,
}

impl StackedContext {
    fn has_ended(&self) -> bool {
        self.ended.as_ref().is_some_and(|ended| ended.load(Ordering::Acquire))
    }
}

type ContextStack = (usize, Vec<StackedContext>);

thread_local! {
    static STACK: RefCell<ContextStack> = const { RefCell::new((0, Vec::new())) };
    static REGIONS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Begins an op on this thread.
pub fn push(context: OpContext) {
    with_stack(|stack| stack.push(StackedContext { context, is_op: true, ended: None }));
}

/// Begins a region on this thread.
pub fn push_region(context: OpContext) {
    with_stack(|stack| stack.push(StackedContext { context, is_op: false, ended: None }));
}

/// Begins a range that ends when `ended` is set, whatever ops and regions have ended then. An op keeps its launches,
/// whatever ranges begin inside it.
pub fn push_range(context: OpContext, ended: Arc<AtomicBool>) {
    with_stack(|stack| {
        stack.retain(|stacked| !stacked.has_ended());
        if stack.last().is_none_or(|innermost| !innermost.is_op) {
            stack.push(StackedContext { context, is_op: false, ended: Some(ended) });
        }
    });
}

/// Ends an op or region on this thread, and with it every op and region that was begun after it and never ended. Ranges
/// end by themselves.
pub fn pop(op_id: OpId) {
    with_stack(|stack| {
        if let Some(at) = stack.iter().rposition(|stacked| stacked.context.op_id == Some(op_id)) {
            let mut index = 0;
            stack.retain(|stacked| {
                index += 1;
                index <= at || (index > at + 1 && stacked.ended.is_some() && !stacked.has_ended())
            });
        }
    });
}

/// The innermost op or region of this thread, with the stack of the running call where the op has none.
pub fn current() -> Option<OpContext> {
    ranges::begin_early();
    let context = of_thread();
    if context.is_some_and(|context| context.pystates_hash.is_some()) {
        return context;
    }
    let Some(hash) = frames::of_thread().or_else(frames::engine::of_thread) else { return context };
    Some(OpContext { pystates_hash: Some(hash), ..context.unwrap_or_default() })
}

/// As [`current`], with the native stack where no op has a stack.
pub fn of_launch() -> Option<OpContext> {
    let context = current();
    if of_thread().is_some_and(|context| context.pystates_hash.is_some()) {
        return context;
    }
    let Some(stack) = native::of_thread() else { return context };
    Some(OpContext { native_stack: Some(stack), ..context.unwrap_or_default() })
}

/// The innermost op or region of this thread.
pub fn current_op() -> Option<OpId> {
    ranges::begin_early();
    of_thread().and_then(|context| context.op_id)
}

/// As [`current`], without ranges that wait for their rows and without a stack.
pub(crate) fn of_thread() -> Option<OpContext> {
    let last = |stack: &RefCell<ContextStack>| {
        let stack = stack.try_borrow().ok()?;
        // What ran when the process was forked runs in its parent.
        let mut running = stack.1.iter().rev().filter(|_| stack.0 == session::generation());
        running.find(|stacked| !stacked.has_ended()).map(|stacked| stacked.context)
    };
    STACK.try_with(last).ok().flatten()
}

/// Runs `body` as if this thread were in another context, or in none.
pub fn within<T>(context: Option<OpContext>, body: impl FnOnce() -> T) -> T {
    let stacked = context.map(|context| StackedContext { context, is_op: true, ended: None });
    let mut own = Vec::from_iter(stacked);
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

fn with_stack(change: impl FnOnce(&mut Vec<StackedContext>)) {
    // A thread that is ending has no stack any more. Its launches are recorded without an op.
    let change = |stack: &RefCell<ContextStack>| {
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
        let op = |id| OpContext { op_id: Some(OpId(id)), ..OpContext::default() };
        push(op(1));
        push(op(2));
        push(op(3));
        pop(OpId(2));
        assert_eq!(current(), Some(op(1)));
        pop(OpId(1));
        assert_eq!(current(), None);
    }

    #[test]
    fn a_range_ends_by_itself_and_never_hides_an_op() {
        let op = |id| OpContext { op_id: Some(OpId(id)), ..OpContext::default() };
        let [outer, inner, hidden] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
        push_region(op(10));
        push_range(op(11), Arc::clone(&outer));
        push_range(op(12), Arc::clone(&inner));
        assert_eq!(current(), Some(op(12)));
        outer.store(true, Ordering::Release);
        assert_eq!(current(), Some(op(12)));
        push(op(13));
        push_range(op(14), hidden);
        assert_eq!(current(), Some(op(13)));
        pop(OpId(13));
        pop(OpId(10));
        assert_eq!(current(), Some(op(12)));
        inner.store(true, Ordering::Release);
        assert_eq!(current(), None);
    }

    #[test]
    fn another_context_lasts_as_long_as_its_body() {
        let op = |id| OpContext { op_id: Some(OpId(id)), ..OpContext::default() };
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
