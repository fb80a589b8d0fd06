//! Buffers that only grow, and memory that may not be there.
use std::alloc::{Layout, alloc_zeroed};

use crate::error::Fault;

/// Make a buffer at least `nbytes` long, or say that there is no memory for it; what it held may be
/// lost. The system gives the pages of a large one as they are written, so that a stream which lies
/// about its length takes little.
pub fn reserve(buffer: &mut Vec<u8>, nbytes: usize) -> Result<&mut [u8], Fault> {
    if buffer.len() < nbytes {
        *buffer = Vec::new();
        *buffer = zeroed(nbytes)?;
    }
    Ok(&mut buffer[..nbytes])
}

fn zeroed(nbytes: usize) -> Result<Vec<u8>, Fault> {
    let layout = Layout::array::<u8>(nbytes).map_err(|_| Fault::Memory(nbytes as u64))?;
    // SAFETY: only a buffer that was too short is made anew, so that its new length is not 0.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        return Err(Fault::Memory(nbytes as u64));
    }
    // SAFETY: the memory has this layout, all of it is initialised, and nobody else has it.
    Ok(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(memory, nbytes)) }.into_vec())
}
