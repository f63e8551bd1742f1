//! The GPU as a replay uses it: the safe floor over the driver's functions.
#![expect(unsafe_code, reason = "calls of the CUDA driver")]

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::null_mut;

use stallmap_sys::cuda::{self, DriverHandle};
use stallmap_sys::replayer::{self, Driver, LaunchAttribute, LaunchConfiguration, types};

use crate::elf;
use crate::error::GpuError;

/// Granularity of physical memory, and of mappings at a chosen address.
pub const GRANULE_BYTES: u64 = 2 << 20;

/// A GPU with a context of its own.
#[derive(Clone, Copy)]
pub struct ReplayGpu {
    driver: Driver,
    /// The context.
    pub context: DriverHandle,
    /// CUDA's ordinal of the device.
    pub device: i32,
}

/// Arguments of a launch other than its parameters.
#[derive(Clone, Debug, Default)]
pub struct LaunchShape {
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub dynamic_shared_bytes: u32,
    /// Launch attributes.
    pub attributes: Vec<LaunchAttribute>,
}

/// A loaded kernel.
#[derive(Clone, Copy, Debug)]
pub struct LoadedKernel(DriverHandle);

/// A loaded module.
#[derive(Clone, Copy, Debug)]
pub struct LoadedCubin(DriverHandle);

impl ReplayGpu {
    /// Opens the driver and makes the context of a device.
    pub fn open(device: i32) -> Result<Self, GpuError> {
        let (driver, _path) = Driver::load(&["libcuda.so.1".into()])
            .map_err(|error| GpuError::own("open the driver", error.to_string()))?;
        let mut gpu = Self { driver, context: DriverHandle::NULL, device };
        // SAFETY: no requirements.
        gpu.check(unsafe { (driver.init)(0) }, "initialize the driver")?;
        let mut context = DriverHandle::NULL;
        // SAFETY: `context` outlives the call.
        gpu.check(unsafe { (driver.primary_context)(&raw mut context, device) }, "make a context")?;
        gpu.context = context;
        // SAFETY: the context was just made.
        gpu.check(unsafe { (driver.set_context)(context) }, "enter the context")?;
        Ok(gpu)
    }

    /// Bytes of L2 cache.
    pub fn l2_bytes(&self) -> u64 {
        let mut value = 0;
        // SAFETY: `value` outlives the call.
        unsafe { (self.driver.device_attribute)(&raw mut value, cuda::DEVICE_L2_BYTES, self.device) };
        u64::try_from(value).unwrap_or(0)
    }

    /// Waits for everything.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        // SAFETY: no requirements.
        self.check(unsafe { (self.driver.synchronize)() }, "wait for the GPU")
    }

    // Memory at chosen addresses.

    /// Reserves addresses, at `wished` if the driver will. Says where they are.
    pub fn reserve(&self, wished: u64, bytes: u64) -> Result<u64, GpuError> {
        let mut address = 0;
        // SAFETY: `address` outlives the call. A reservation touches nothing that exists.
        let code = unsafe { (self.driver.reserve)(&raw mut address, size(bytes), 0, wished, 0) };
        self.check(code, "reserve addresses")?;
        Ok(address)
    }

    /// Gives reserved addresses back.
    pub fn unreserve(&self, address: u64, bytes: u64) -> Result<(), GpuError> {
        // SAFETY: the caller reserved this range and mapped nothing there.
        self.check(unsafe { (self.driver.unreserve)(address, size(bytes)) }, "give addresses back")
    }

    /// Makes one granule of physical memory.
    pub fn create_granule(&self) -> Result<u64, GpuError> {
        let properties = types::CUmemAllocationProp {
            type_: types::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: types::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: self.location(),
            win32HandleMetaData: null_mut(),
            allocFlags: types::CUmemAllocationProp_st__bindgen_ty_1 {
                compressionType: 0,
                gpuDirectRDMACapable: 0,
                usage: 0,
                reserved: [0; 4],
            },
        };
        let mut memory = 0;
        // SAFETY: both outlive the call.
        let code =
            unsafe { (self.driver.create)(&raw mut memory, size(GRANULE_BYTES), &raw const properties, 0) };
        self.check(code, "make memory")?;
        Ok(memory)
    }

    /// Maps a granule at a reserved address, or leaves it unmapped.
    pub fn map(&self, address: u64, memory: u64) -> Result<(), GpuError> {
        let access = types::CUmemAccessDesc {
            location: self.location(),
            flags: types::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the caller reserved the range, and the memory has a granule's size.
        self.check(unsafe { (self.driver.map)(address, size(GRANULE_BYTES), 0, memory, 0) }, "map memory")?;
        // SAFETY: the range was just mapped; `access` outlives the call.
        let code = unsafe { (self.driver.set_access)(address, size(GRANULE_BYTES), &raw const access, 1) };
        self.check(code, "allow access to memory").inspect_err(|_| drop(self.unmap(address)))
    }

    /// Takes a granule from its address.
    pub fn unmap(&self, address: u64) -> Result<(), GpuError> {
        // SAFETY: the caller mapped a granule there.
        self.check(unsafe { (self.driver.unmap)(address, size(GRANULE_BYTES)) }, "unmap memory")
    }

    fn location(&self) -> types::CUmemLocation {
        types::CUmemLocation { type_: types::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: self.device }
    }

    // Memory anywhere.

    /// Allocates device memory, never freed.
    pub fn allocate(&self, bytes: u64) -> Result<u64, GpuError> {
        let mut address = 0;
        // SAFETY: `address` outlives the call.
        self.check(unsafe { (self.driver.alloc)(&raw mut address, size(bytes.max(1))) }, "allocate memory")?;
        Ok(address)
    }

    /// Frees device memory.
    pub fn free(&self, address: u64) -> Result<(), GpuError> {
        // SAFETY: the caller allocated it and uses it no more.
        self.check(unsafe { (self.driver.free)(address) }, "free memory")
    }

    /// Copies to device memory, and waits.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), GpuError> {
        // SAFETY: the source has that many bytes. A bad address is the driver's error.
        let code = unsafe { (self.driver.copy_to_device)(address, bytes.as_ptr().cast(), bytes.len()) };
        self.check(code, "write memory")
    }

    /// Copies from device memory, and waits.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), GpuError> {
        // SAFETY: the target has that many bytes. A bad address is the driver's error.
        let code = unsafe { (self.driver.copy_to_host)(bytes.as_mut_ptr().cast(), address, bytes.len()) };
        self.check(code, "read memory")
    }

    /// Copies within device memory, after earlier work.
    pub fn copy(&self, target: u64, source: u64, bytes: u64) -> Result<(), GpuError> {
        // SAFETY: a bad address is the driver's error.
        let code = unsafe { (self.driver.copy_on_device)(target, source, size(bytes), DriverHandle::NULL) };
        self.check(code, "copy memory")
    }

    /// Fills device memory with a byte, after earlier work.
    pub fn fill(&self, address: u64, byte: u8, bytes: u64) -> Result<(), GpuError> {
        // SAFETY: a bad address is the driver's error.
        self.check(
            unsafe { (self.driver.fill)(address, byte, size(bytes), DriverHandle::NULL) },
            "fill memory",
        )
    }

    /// Page-locked host memory, never freed: copies from and to it are several times faster.
    pub fn pinned(&self, bytes: usize) -> Result<&'static mut [u8], GpuError> {
        let mut pointer = null_mut();
        // SAFETY: `pointer` outlives the call.
        let code = unsafe { (self.driver.alloc_host)(&raw mut pointer, bytes, replayer::HOST_PORTABLE) };
        self.check(code, "allocate host memory")?;
        // SAFETY: the driver gave that many bytes, which are not shared and which are never freed.
        unsafe {
            pointer.cast::<u8>().write_bytes(0, bytes);
            Ok(std::slice::from_raw_parts_mut(pointer.cast(), bytes))
        }
    }

    // Code.

    /// Loads a cubin. The driver gets no length and trusts the cubin's headers.
    pub fn load(&self, cubin: &[u8]) -> Result<LoadedCubin, GpuError> {
        elf::check_whole(cubin).map_err(|cause| GpuError::own("load a cubin", cause))?;
        let mut module = DriverHandle::NULL;
        // SAFETY: everything that its headers say is in the file is there.
        let code = unsafe { (self.driver.load_module)(&raw mut module, cubin.as_ptr().cast()) };
        self.check(code, "load a cubin")?;
        Ok(LoadedCubin(module))
    }

    /// Unloads a module. No kernel of it runs.
    pub fn unload(&self, module: LoadedCubin) -> Result<(), GpuError> {
        // SAFETY: the module was loaded, and is used no more.
        self.check(unsafe { (self.driver.unload_module)(module.0) }, "unload a cubin")
    }

    /// Compiles PTX and loads it.
    pub fn compile(&self, ptx: &CStr) -> Result<LoadedCubin, GpuError> {
        let mut module = DriverHandle::NULL;
        // SAFETY: the text ends with a zero.
        let code = unsafe { (self.driver.load_module)(&raw mut module, ptx.as_ptr().cast()) };
        self.check(code, "compile a kernel")?;
        Ok(LoadedCubin(module))
    }

    /// A kernel of a module, by its mangled name.
    pub fn kernel(&self, module: LoadedCubin, name: &str) -> Result<LoadedKernel, GpuError> {
        let c_name = c_name(name)?;
        let mut function = DriverHandle::NULL;
        // SAFETY: the module is loaded. The name outlives the call.
        let code = unsafe { (self.driver.function)(&raw mut function, module.0, c_name.as_ptr()) };
        self.check(code, "find the kernel in its cubin")?;
        Ok(LoadedKernel(function))
    }

    /// Address and bytes of a module's variable.
    pub fn variable(&self, module: LoadedCubin, name: &str) -> Result<(u64, u64), GpuError> {
        let c_name = c_name(name)?;
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: the module is loaded. The name outlives the call.
        let code =
            unsafe { (self.driver.variable)(&raw mut address, &raw mut bytes, module.0, c_name.as_ptr()) };
        self.check(code, "find a variable of the cubin")?;
        Ok((address, bytes as u64))
    }

    /// Sets the limits and preferences of a kernel. A driver that refuses them will refuse the launch too.
    pub fn set_attribute(&self, kernel: LoadedKernel, attribute: c_int, value: i32) {
        // SAFETY: the kernel is loaded.
        unsafe { (self.driver.set_function_attribute)(kernel.0, attribute, value) };
    }

    /// Launches a kernel on the default stream.
    pub fn launch(
        &self,
        kernel: LoadedKernel,
        shape: &LaunchShape,
        parameters: &[u8],
    ) -> Result<(), GpuError> {
        let [grid, block] = [shape.grid, shape.block];
        let configuration = LaunchConfiguration {
            shape: [grid[0], grid[1], grid[2], block[0], block[1], block[2]],
            shared_bytes: shape.dynamic_shared_bytes,
            stream: DriverHandle::NULL,
            attributes: shape.attributes.as_ptr(),
            attribute_count: u32::try_from(shape.attributes.len()).unwrap_or(0),
        };
        let mut bytes = parameters.len();
        let mut extra: [*mut c_void; 5] = [
            cuda::PARAM_BUFFER_POINTER as *mut c_void,
            parameters.as_ptr().cast_mut().cast(),
            cuda::PARAM_BUFFER_SIZE as *mut c_void,
            (&raw mut bytes).cast(),
            null_mut(),
        ];
        let extra = if parameters.is_empty() { null_mut() } else { extra.as_mut_ptr() };
        // SAFETY: everything outlives the call, which copies the parameters. What the kernel does to memory is what
        // the recorded launch did.
        let code = unsafe { (self.driver.launch)(&raw const configuration, kernel.0, null_mut(), extra) };
        self.check(code, "launch the kernel")
    }

    // Time.

    /// Two events.
    pub fn events(&self) -> Result<[DriverHandle; 2], GpuError> {
        let mut events = [DriverHandle::NULL; 2];
        for event in &mut events {
            // SAFETY: `event` outlives the call.
            self.check(unsafe { (self.driver.create_event)(std::ptr::from_mut(event), 0) }, "make an event")?;
        }
        Ok(events)
    }

    /// Marks this moment on the default stream.
    pub fn record(&self, event: DriverHandle) -> Result<(), GpuError> {
        // SAFETY: the event was made by `events`.
        self.check(unsafe { (self.driver.record_event)(event, DriverHandle::NULL) }, "record an event")
    }

    /// Nanoseconds between two events that have passed.
    pub fn elapsed_ns(&self, [first, last]: [DriverHandle; 2]) -> Result<u64, GpuError> {
        let mut milliseconds = 0.0;
        // SAFETY: the events were made by `events`; `milliseconds` outlives the call.
        let code = unsafe { (self.driver.elapsed)(&raw mut milliseconds, first, last) };
        self.check(code, "measure a time")?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive time of a few seconds"
        )]
        Ok((f64::from(milliseconds) * 1e6).round() as u64)
    }

    fn check(&self, code: c_int, action: &str) -> Result<(), GpuError> {
        if code == 0 {
            return Ok(());
        }
        let mut name = std::ptr::null();
        // SAFETY: the driver answers with a name of its own, which lives as long as the process, or leaves null.
        let known = unsafe { (self.driver.error_name)(code, &raw mut name) } == 0 && !name.is_null();
        let cause = if known {
            // SAFETY: as above.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
        } else {
            format!("CUDA error {code}")
        };
        Err(GpuError { action: action.to_owned(), cause, code })
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn c_name(name: &str) -> Result<CString, GpuError> {
    CString::new(name).map_err(|error| GpuError::own("name a symbol", error.to_string()))
}
