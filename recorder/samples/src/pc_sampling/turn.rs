//! The right to sample a GPU.
//!
//! The hardware samples for one process at a time. A second process that enables sampling breaks that of the first, and
//! may break the program. Recorded processes agree on a name in Linux's abstract namespace of sockets: the kernel gives
//! it to one of them, and takes it back when that process ends, in any way. Processes in other network namespaces do
//! not see it.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The right to sample one GPU. The contexts of this process share it, and it ends with the last of them.
#[derive(Debug)]
pub(super) struct SamplingTurn {
    _name: Option<Arc<UnixListener>>,
}

/// The names that this process has, by GPU.
static HELD: Mutex<BTreeMap<String, Weak<UnixListener>>> = Mutex::new(BTreeMap::new());

impl SamplingTurn {
    /// Takes the right to sample the GPU of this UUID. `None` while another process has it. Where the system has no such
    /// names, or the GPU is not known, nothing is excluded.
    pub(super) fn take(gpu: Option<&str>) -> Option<Self> {
        let Some(gpu) = gpu else { return Some(Self { _name: None }) };
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = held.get(gpu).and_then(Weak::upgrade) {
            return Some(Self { _name: Some(name) });
        }
        match address(gpu).and_then(|address| UnixListener::bind_addr(&address)) {
            Ok(name) => {
                let name = Arc::new(name);
                held.insert(gpu.to_owned(), Arc::downgrade(&name));
                Some(Self { _name: Some(name) })
            }
            Err(error) if error.kind() == ErrorKind::AddrInUse => None,
            Err(_) => Some(Self { _name: None }),
        }
    }
}

/// The name of a GPU's turn.
pub(super) fn address(gpu: &str) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("stallmap-samples-{gpu}"))
}
