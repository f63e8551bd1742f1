//! Puts everything out of the L2 cache before a replay: a kernel reads a buffer of twice its size.
//!
//! Reading, because a cache full of written lines would write them back while the replayed launch runs, and that would
//! count as its own traffic. ncu flushes caches too, by default.

use crate::error::GpuError;
use crate::gpu::{LaunchShape, LoadedKernel, ReplayGpu};

/// Compiled by the driver for the GPU at hand.
const READER: &std::ffi::CStr = c"
.version 7.0
.target sm_70
.address_size 64
.visible .entry stallmap_read(.param .u64 base, .param .u64 bytes)
{
  .reg .pred %at_end;
  .reg .b32 %block, %threads, %thread, %index, %blocks, %all, %a, %b, %c, %d;
  .reg .b64 %next, %end, %offset, %stride;
  ld.param.u64 %next, [base];
  ld.param.u64 %end, [bytes];
  add.u64 %end, %end, %next;
  mov.u32 %block, %ctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %thread, %tid.x;
  mad.lo.u32 %index, %block, %threads, %thread;
  mul.wide.u32 %offset, %index, 16;
  add.u64 %next, %next, %offset;
  mov.u32 %blocks, %nctaid.x;
  mul.lo.u32 %all, %blocks, %threads;
  mul.wide.u32 %stride, %all, 16;
more:
  setp.ge.u64 %at_end, %next, %end;
  @%at_end bra done;
  ld.volatile.global.v4.u32 {%a, %b, %c, %d}, [%next];
  add.u64 %next, %next, %stride;
  bra more;
done:
  ret;
}
";

/// A way to flush the L2 cache.
#[derive(Debug)]
pub struct CacheFlush {
    kernel: LoadedKernel,
    buffer: (u64, u64),
}

impl CacheFlush {
    /// Allocates the buffer and compiles the kernel.
    pub fn new(gpu: ReplayGpu) -> Result<Self, GpuError> {
        let bytes = 2 * gpu.l2_bytes();
        let address = gpu.allocate(bytes)?;
        gpu.fill(address, 0, bytes)?;
        let module = gpu.compile(READER)?;
        let kernel = gpu.kernel(module, "stallmap_read")?;
        Ok(Self { kernel, buffer: (address, bytes) })
    }

    /// Flushes, and waits.
    pub fn flush(&self, gpu: ReplayGpu) -> Result<(), GpuError> {
        self.read(gpu, self.buffer)
    }

    /// Reads a range of memory, address and bytes, into L2, and waits.
    pub fn read(&self, gpu: ReplayGpu, (address, bytes): (u64, u64)) -> Result<(), GpuError> {
        let shape = LaunchShape { grid: [1024, 1, 1], block: [256, 1, 1], ..LaunchShape::default() };
        // A thread reads 16 bytes at a multiple of as many.
        let parameters: Vec<u8> = [address, bytes / 16 * 16].into_iter().flat_map(u64::to_le_bytes).collect();
        gpu.launch(self.kernel, &shape, &parameters)?;
        gpu.synchronize()
    }
}
