//! Launches under the sanitizer API: one at a time, with parameters, code, and the records they write.
#![expect(unsafe_code, reason = "calls of the sanitizer API")]

use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::ffi::{CString, c_int};
use std::ptr::null;
use std::sync::{Arc, PoisonError};

use stallmap_schema::capture::recording::CodeRange;
use stallmap_schema::cell::Blob;
use stallmap_schema::id::{Address, KernelId, RunId};
use stallmap_schema::tables::launch::{Launch, LaunchParameter, LaunchRun};
use stallmap_schema::word::{LossKind, Match};
use stallmap_sys::cuda::Handle;
use stallmap_sys::sanitizer::{ApiData, LaunchData};

use super::bundle::{Beginning, Prepared};
use super::{Instrument, PATIENCE, State, check, own};
use crate::gpu::bundle::refusal::Refusal;
use crate::gpu::call;
use crate::gpu::code::Code;
use crate::gpu::device::{self, Resources};
use crate::gpu::name::text;
use crate::gpu::parameters::{self, Parameters};
use crate::gpu::ring::{Gathering, Ring};
use crate::{context, replayed, session};

/// What the launch call on this thread was given.
pub(super) struct Given {
    /// Dynamic shared memory of a block.
    pub(super) dynamic_shared_bytes: u32,
    /// The kernel's parameters.
    pub(super) parameters: Parameters,
    /// Attributes, as CUlaunchAttribute has them.
    pub(super) attributes: Vec<u8>,
    /// Whether the launch is cooperative.
    pub(super) is_cooperative: bool,
}

/// A launch that runs on this thread.
struct Running {
    row: LaunchRun,
    /// Where it is to become a bundle.
    bundle: Option<Box<Prepared>>,
}

thread_local! {
    static GIVEN: RefCell<Option<Given>> = const { RefCell::new(None) };
    static RUNNING: RefCell<Option<Box<Running>>> = const { RefCell::new(None) };
}

impl Instrument {
    /// # Safety
    /// `data.parameters` points to the parameters of the launch function with this callback id.
    pub(super) unsafe fn driver_call(&self, id: u32, data: &ApiData) {
        const ENTER: c_int = 0;
        if data.site != ENTER {
            GIVEN.with_borrow_mut(|slot| *slot = None);
            self.abandon_launch();
            return;
        }
        // SAFETY: by this function's contract.
        let Some(call) = (unsafe { call::read(id, data.parameters) }) else { return };
        let function = call.function;
        let known = self.lock().layouts.get(&function.key()).cloned();
        let layout = known.unwrap_or_else(|| {
            let layout = parameters::layout(function);
            self.lock().layouts.insert(function.key(), layout.clone());
            layout
        });
        // SAFETY: they are the launch call's own, which is running.
        let parameters = unsafe { parameters::read(call.pointers, call.extra, &layout) };
        // SAFETY: as above.
        let attributes = unsafe { call.attributes() };
        let is_cooperative = call.is_cooperative || call::are_cooperative(&attributes);
        let given = Given { dynamic_shared_bytes: call.shared_bytes, parameters, attributes, is_cooperative };
        GIVEN.with_borrow_mut(|slot| *slot = Some(given));
    }

    pub(super) fn launch_begins(&self, data: &LaunchData) {
        if replayed::is_silent() {
            self.leave_out(data);
            return;
        }
        self.wait_for_turn();
        let begin_ns = session::now_ns();
        let ordinal = session::take_ordinal();
        let name = text(data.name);
        let decision = self.selector.decide(&name);
        if let Err(reason) = decision {
            session::lose(LossKind::Launch, reason, 1, None);
        }
        let given = GIVEN.with_borrow_mut(Option::take);
        let mut state = self.lock();
        let code = self.code_of(&mut state, data, &name, ordinal);
        let stream_id = state.stream(data.stream_handle);
        let resources = *state
            .resources
            .entry(data.function.key())
            .or_insert_with(|| own(|| device::resources(data.function)));
        drop(state);
        let launch = Beginning { data, code: code.as_deref(), given: given.as_ref() };
        let bundle = self.bundle_begins(launch, &name, ordinal, decision.is_ok());
        match &code {
            Some(_) if replayed::current().is_some() => {}
            Some(code) => emit_launch(data, code, &name, ordinal, given, resources),
            None => {
                session::lose(LossKind::Launch, "launch of a module that was not seen", 1, Some(name));
            }
        }
        let mut row = LaunchRun { begin_ns, recorded: decision.is_ok(), ..begun(ordinal, stream_id) };
        if row.recorded
            && let Err(error) =
                self.arm(data, ordinal, bundle.as_ref().is_some_and(|bundle| bundle.gathers()))
        {
            session::lose(LossKind::Launch, "launch could not be instrumented", 1, Some(error));
            row.recorded = false;
        }
        if !row.recorded {
            self.leave_out(data);
        }
        RUNNING.with_borrow_mut(|running| *running = Some(Box::new(Running { row, bundle })));
    }

    /// Makes the patches of a launch return at once.
    fn leave_out(&self, data: &LaunchData) {
        // SAFETY: the launch is this callback's; the patches know null userdata.
        unsafe {
            (self.api.set_launch_data)(data.launch, data.function, data.stream_handle, null());
        }
    }

    /// The code that a launch runs, with the place of its functions in memory recorded.
    fn code_of(&self, state: &mut State, data: &LaunchData, name: &str, ordinal: u64) -> Option<Arc<Code>> {
        let key = data.module.key();
        let code = Arc::clone(state.modules.get(&key)?);
        let placed = state.placed.entry(key).or_default();
        if placed.is_empty() {
            for function in &code.functions {
                self.place(&code, data.module, function, false, ordinal);
            }
        }
        if placed.insert(name.to_owned()) {
            self.place(&code, data.module, name, true, ordinal);
        }
        Some(code)
    }

    fn place(&self, code: &Code, module: Handle, name: &str, is_kernel: bool, ordinal: u64) {
        let Ok(c_name) = CString::new(name) else { return };
        let (mut address, mut code_bytes) = (0, 0);
        // SAFETY: the module is loaded and the outputs outlive the call.
        let result = unsafe {
            (self.api.function_range)(module, c_name.as_ptr(), &raw mut address, &raw mut code_bytes)
        };
        if result != 0 {
            // A device function that is not loaded has no accesses; a kernel that has no place is a loss.
            if is_kernel {
                session::lose(
                    LossKind::Code,
                    "function has no known place in memory",
                    1,
                    Some(name.to_owned()),
                );
            }
            return;
        }
        session::emit(CodeRange {
            function_id: code.function_id(name),
            module_id: code.module_id,
            name: name.to_owned(),
            is_kernel,
            address: Address(address),
            code_bytes,
            ordinal,
        });
    }

    /// Makes the launch write records.
    fn arm(&self, data: &LaunchData, ordinal: u64, gathers: bool) -> Result<(), String> {
        let state = &mut *self.lock();
        let key = data.context.key();
        if !state.patched.contains(&key) {
            return Err("no patches in this context".to_owned());
        }
        let ring = match state.rings.entry(key) {
            Entry::Occupied(ring) => ring.into_mut(),
            Entry::Vacant(vacant) => {
                let ring = own(|| Ring::new(&self.api, data.context, data.stream_handle, self.config))?;
                vacant.insert(ring)
            }
        };
        let blocks: u64 = data.grid.iter().map(|&blocks| u64::from(blocks)).product();
        let stride = self.config.blocks.map_or(1, |wanted| blocks.div_ceil(wanted.max(1)).max(1));
        ring.begin(
            &self.api,
            data.stream_handle,
            ordinal,
            u32::try_from(stride).unwrap_or(u32::MAX),
            gathers,
        )?;
        // SAFETY: the launch is this callback's; the ring's control block lives as long as its context.
        let code = unsafe {
            (self.api.set_launch_data)(data.launch, data.function, data.stream_handle, ring.userdata())
        };
        check(code, "set the launch's data")
    }

    pub(super) fn launch_ends(&self, data: &LaunchData) {
        let Some(running) = RUNNING.with_borrow_mut(Option::take) else { return };
        let Running { mut row, bundle } = *running;
        let completed = if row.recorded {
            // SAFETY: the stream is the launch's own.
            let code = unsafe { (self.api.synchronize)(data.stream_handle) };
            row.end_ns = Some(session::now_ns());
            let handed_over = self.hand_over(data, row);
            if code == 0 {
                handed_over
            } else {
                let detail = format!("sanitizer error {code}");
                session::lose(LossKind::Launch, "kernel did not complete", 1, Some(detail.clone()));
                Err(Refusal::with("kernel did not complete", detail))
            }
        } else {
            row.end_ns = Some(session::now_ns());
            session::emit(row);
            Err(Refusal::of("launch could not be instrumented"))
        };
        if let Some(bundle) = bundle {
            self.bundle_ends(data, bundle, completed);
        }
        self.end_turn();
    }

    /// Gives a launch's row to the reader of its records; says where that leaves its pages, if none is missing.
    fn hand_over(&self, data: &LaunchData, row: LaunchRun) -> Result<Gathering, Refusal> {
        let mut state = self.lock();
        let Some(ring) = state.rings.get_mut(&data.context.key()) else {
            session::emit(row);
            return Err(Refusal::of("its records could not be read"));
        };
        match ring.end(&self.api, data.stream_handle, row) {
            Ok(0) => Ok(ring.gathering()),
            Ok(lost) => Err(Refusal::with("some of its records were lost", lost)),
            Err(error) => {
                session::lose(LossKind::Launch, "records could not be read", 1, Some(error.clone()));
                Err(Refusal::with("its records could not be read", error))
            }
        }
    }

    /// A launch that began on this thread and never ended was refused by the driver.
    fn abandon_launch(&self) {
        if let Some(running) = RUNNING.with_borrow_mut(Option::take) {
            session::emit(LaunchRun { recorded: false, ..running.row });
            session::lose(LossKind::Launch, "refused by the driver", 1, None);
            if running.bundle.is_some() {
                session::lose(LossKind::Bundle, "refused by the driver", 1, None);
            }
            self.end_turn();
        }
    }

    fn wait_for_turn(&self) {
        let launching = self.launching.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.launched.wait_timeout_while(launching, PATIENCE, |launching| *launching);
        let (mut launching, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            session::lose(LossKind::Access, "two launches ran at once: their records may be mixed", 1, None);
        }
        *launching = true;
    }

    fn end_turn(&self) {
        *self.launching.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.launched.notify_one();
    }
}

/// The row of a launch that has just begun.
fn begun(ordinal: u64, stream_id: u32) -> LaunchRun {
    let replayed = replayed::current();
    LaunchRun {
        run_id: RunId(0),
        ordinal,
        kernel_id: replayed.unwrap_or(KernelId(ordinal)),
        matched: if replayed.is_some() { Match::Replayed } else { Match::Reference },
        match_reason: None,
        thread_id: session::thread_id(),
        stream_id,
        correlation_id: None,
        begin_ns: 0,
        end_ns: None,
        recorded: false,
        request_count: None,
        lane_access_count: None,
        lost_request_count: None,
        sample_count: None,
        lost_sample_count: None,
        sampling_period_cycles: None,
        samples_are_split: None,
    }
}

fn emit_launch(
    data: &LaunchData,
    code: &Code,
    name: &str,
    ordinal: u64,
    given: Option<Given>,
    resources: Resources,
) {
    let context = context::current();
    let [grid_x, grid_y, grid_z] = data.grid;
    let [block_x, block_y, block_z] = data.block;
    let cluster = data.cluster.map(|blocks| (blocks > 0).then_some(blocks));
    session::emit(Launch {
        kernel_id: KernelId(ordinal),
        run_id: RunId(0),
        function_id: code.function_id(name),
        ordinal,
        occurrence: 0,
        grid_x,
        grid_y,
        grid_z,
        block_x,
        block_y,
        block_z,
        cluster_x: cluster[0],
        cluster_y: cluster[1],
        cluster_z: cluster[2],
        dynamic_shared_bytes: given.as_ref().map(|given| given.dynamic_shared_bytes),
        static_shared_bytes: resources.static_shared_bytes,
        local_bytes: resources.local_bytes,
        register_count: resources.register_count,
        device_id: data.device,
        op_id: context.map(|context| context.op_id),
        pystates_hash: context.and_then(|context| context.pystates_hash),
        graph_id: None,
        graph_launch: None,
        graph_node: None,
        capture_ordinal: None,
    });
    match given {
        Some(Given { parameters: Parameters { bytes, layout }, .. }) => session::emit(LaunchParameter {
            kernel_id: KernelId(ordinal),
            bytes: Blob(bytes),
            offsets: layout.offsets,
            sizes: layout.sizes,
        }),
        None => session::lose(LossKind::Parameter, "launch call was not seen", 1, None),
    }
}
