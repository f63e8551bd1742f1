//! Launches whose blocks are timed, instead of their accesses: the launch call is given a copy of its kernel.
#![expect(unsafe_code, reason = "parameters of the driver's functions")]

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::{Arc, Once};
use std::thread;
use std::time::Duration;

use stallmap_config::{AccessExtent, PassInstrument};
use stallmap_schema::tables::launch::LaunchRun;
use stallmap_schema::word::LossKind;
use stallmap_session::gpu::call::{self, LaunchCall};
use stallmap_session::gpu::{device, graphs};
use stallmap_session::guard::guard;
use stallmap_session::session;
use stallmap_session::slot::ThreadSlot;
use stallmap_sys::cuda::DriverHandle;

use super::{AccessInstrument, HandleKey, INSTRUMENT, own};
use crate::accesses::timing::{BlockTimer, OriginalKernel, TimedCall, TimedLaunch, TimedLaunchSize};

/// Time between two looks at launches that may have ended.
const INTERVAL: Duration = Duration::from_millis(5);
/// The reason of a launch whose call was not seen, or whose context has no timer.
const UNSEEN: &str = "its launch call was not seen";

/// A launch call of this thread.
struct TimedThread {
    timer: Arc<BlockTimer>,
    call: TimedCall,
    /// Room for its times, once the launch began and is to be recorded.
    launch: Option<TimedLaunch>,
    /// True once the launch itself has returned.
    has_run: bool,
}

thread_local! {
    static CALLED: ThreadSlot<Box<TimedThread>> = const { ThreadSlot::empty() };
    /// The reason why the launch of this thread runs its own kernel.
    static REASON: Cell<&'static str> = const { Cell::new(UNSEEN) };
}

impl AccessInstrument {
    /// True if this pass times blocks and records no accesses.
    pub(super) fn is_timing(&self) -> bool {
        self.config.instrument == PassInstrument::Blocks
    }

    /// True if a few launches of each kind stand for the rest.
    pub(super) fn has_models(&self) -> bool {
        self.config.counts() || self.is_timing() && self.config.accesses == AccessExtent::Auto
    }

    /// A launch is being called: it gets a copy of its kernel that times blocks, where there can be one.
    ///
    /// # Safety
    /// `parameters` points to the parameters of the launch function with this callback id, which is being called.
    pub(super) unsafe fn time_call(&self, id: u32, launch: &LaunchCall, parameters: *const c_void) {
        if !self.is_timing() {
            return;
        }
        drop(CALLED.with(ThreadSlot::take));
        match self.replace(id, launch) {
            Ok((timer, called)) => {
                // SAFETY: by this function's contract.
                unsafe { call::replace_function(id, parameters, called.function()) };
                let thread = TimedThread { timer, call: called, launch: None, has_run: false };
                CALLED.with(|slot| slot.put(Box::new(thread)));
            }
            Err(reason) => REASON.set(reason),
        }
    }

    fn replace(&self, id: u32, launch: &LaunchCall) -> Result<(Arc<BlockTimer>, TimedCall), &'static str> {
        let timer =
            own(|| graphs::relaxed(|| self.timer())).ok_or("blocks of its context cannot be timed")?;
        // The driver may load the module for this: then it is seen.
        let function = device::function_of(launch.function).ok_or(UNSEEN)?;
        let module = device::module_of(function).ok_or(UNSEEN)?;
        let name = graphs::kernel_name(function);
        self.selector.takes(&name)?;
        let (cubin, code) = self.image(module).ok_or("its module was not seen")?;
        if !code.variables.is_empty() {
            return Err("its module has variables, which a copy would not share");
        }
        let product = |sizes: &[u32]| sizes.iter().map(|&size| u64::from(size)).product();
        let (grid, block) = launch.shape.split_at(3);
        let size = TimedLaunchSize { blocks: product(grid), threads: product(&block[..3]) };
        let kernel = OriginalKernel { module, function, name: &name, cubin: &cubin };
        let stream = graphs::stream_of_call(id, launch.stream);
        let called = own(|| graphs::relaxed(|| timer.replace(&kernel, stream, size)))?;
        self.know_copy(called.module(), code);
        Ok((timer, called))
    }

    /// The timer of this thread's context, made for its first launch.
    fn timer(&self) -> Option<Arc<BlockTimer>> {
        let context = device::current_context()?;
        if let Some(known) = self.lock().timers.get(&context.key()) {
            return known.clone();
        }
        let described = device::current().and_then(device::describe)?;
        let timer =
            BlockTimer::new((described.compute_major, described.compute_minor), self.config.marks_warps);
        let lose = |error: String| {
            session::lose(LossKind::Source, "blocks of a context cannot be timed", 1, Some(error));
        };
        let timer = timer.map_err(lose).ok().map(Arc::new);
        self.lock().timers.insert(context.key(), timer.clone());
        collect_in_background();
        timer
    }

    /// A launch begins: room for its times, and its memory is zeroed. `stream` is the API's handle of its stream. Where it
    /// has no times, its row says so.
    pub(super) fn time(&self, stream: DriverHandle, row: LaunchRun, has_model: bool) -> LaunchRun {
        if !row.recorded {
            if has_model {
                session::lose(
                    LossKind::Activity,
                    "blocks of earlier launches of its kind are timed",
                    1,
                    None,
                );
            }
            return row;
        }
        let reason = CALLED.with(|slot| {
            slot.change(|called| {
                let Some(called) = called else { return Err(REASON.replace(UNSEEN)) };
                let launch = called.timer.reserve(row.ordinal, &called.call)?;
                if let Err(error) = own(|| called.call.begin(&self.api, stream)) {
                    called.timer.settle(&launch);
                    return Err(error);
                }
                called.launch = Some(launch);
                Ok(())
            })
        });
        if let Err(reason) = reason {
            session::lose(LossKind::Activity, "blocks of a launch are not timed", 1, Some(reason.to_owned()));
        }
        LaunchRun { recorded: reason.is_ok(), ..row }
    }

    /// The launch has run. Its call is still to return.
    pub(super) fn timed_ends() {
        CALLED.with(|slot| {
            slot.change(|called| called.iter_mut().for_each(|called| called.has_run = true));
        });
    }

    /// A launch call has returned.
    pub(super) fn timed_call_ends() {
        let Some(called) = CALLED.with(ThreadSlot::take) else { return };
        let TimedThread { timer, call, launch: Some(launch), has_run } = *called else { return };
        if !has_run {
            timer.settle(&launch);
        } else if let Err(error) = own(|| timer.submit(&call, launch)) {
            session::lose(LossKind::Activity, "times of blocks could not be copied", 1, Some(error));
        }
    }

    /// Records what launches of a context, or of all, have left.
    pub(super) fn end_timers(&self, context: Option<HandleKey>) {
        let mut state = self.lock();
        let timers: Vec<Option<Arc<BlockTimer>>> = match context {
            // Another context may have its handle later.
            Some(context) => vec![state.timers.remove(&context).flatten()],
            None => state.timers.values_mut().map(Option::take).collect(),
        };
        drop(state);
        for timer in timers.iter().flatten() {
            timer.drain();
        }
    }

    /// A module is unloaded.
    pub(super) fn forget_copies(&self, module: DriverHandle) {
        let timers: Vec<Arc<BlockTimer>> = self.lock().timers.values().flatten().cloned().collect();
        for timer in &timers {
            timer.forget(module.key());
        }
    }

    fn collect_times(&self) {
        let timers: Vec<Arc<BlockTimer>> = self.lock().timers.values().flatten().cloned().collect();
        for timer in &timers {
            timer.collect();
        }
    }
}

/// Starts the thread that records times of launches that have ended, once.
fn collect_in_background() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let run = || {
            while let (Some(instrument), false) = (INSTRUMENT.get(), session::has_ended()) {
                thread::sleep(INTERVAL);
                instrument.collect_times();
            }
        };
        let thread = thread::Builder::new().name("stallmap-blocks".into());
        if let Err(error) = thread.spawn(move || guard((), run)) {
            let reason = "times of blocks are read at the end only";
            session::lose(LossKind::Source, reason, 1, Some(error.to_string()));
        }
    });
}
