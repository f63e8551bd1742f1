//! Launches after the session has ended: destructors of statics may launch kernels.
#![expect(unsafe_code, reason = "data of callbacks")]

use stallmap_sys::cuda::{DriverHandle, launch_id};
use stallmap_sys::cupti::CuptiApiData;

use super::SamplingInstrument;
use super::launch::{self, ENTER, result};
use stallmap_session::gpu::{call, graphs};
use stallmap_session::session;

impl SamplingInstrument {
    /// Counts the launches of a call after the session has ended.
    ///
    /// # Safety
    /// As [`Self::driver_call`].
    pub(super) unsafe fn late_call(&self, id: u32, data: &CuptiApiData) {
        // A call that began before is counted by the end of its sampler.
        let has_begun = data.site == ENTER || launch::forget();
        if has_begun || result(data) != 0 || data.parameters.is_null() {
            return;
        }
        if launch_id::GRAPH.contains(&id) {
            // SAFETY: the parameters are the executable graph and the stream.
            let [exec, stream] = unsafe { *data.parameters.cast::<[DriverHandle; 2]>() };
            if graphs::capture(id, stream).is_none() {
                let nodes = self.graphs.nodes(exec);
                let enabled = nodes.iter().flat_map(|nodes| nodes.iter()).filter(|node| node.is_enabled);
                session::lose_late(enabled.count() as u64);
            }
        // SAFETY: by this function's contract.
        } else if let Some(call) = unsafe { call::read(id, data.parameters) }
            && graphs::capture(id, call.stream).is_none()
        {
            session::lose_late(1);
        }
    }
}
