//! A deflate stream decoded piece by piece with zlib-rs, which tells at which bits its blocks
//! begin.
use std::ffi::{CStr, c_int};
use std::mem::size_of;

use libz_rs_sys::{
    Z_BLOCK, Z_BUF_ERROR, Z_MEM_ERROR, Z_OK, Z_STREAM_END, inflate, inflateEnd, inflateInit2_,
    inflateMark, inflateReset, z_stream, zlibVersion,
};

use crate::error::{Fault, corrupt};

/// A deflate stream without any wrapping, of the largest window.
const RAW: c_int = -15;
/// Bits of zlib's `data_type` after a call: unused bits of the last byte, in the last block,
/// between blocks.
const UNUSED: c_int = 63;
const LAST: c_int = 64;
const BETWEEN: c_int = 128;
/// Of codes that zlib says no more about.
const BAD_CODE: &str = "an invalid code, or a distance too far back,";

/// Where a call of `Stream::inflate` has left the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Anywhere: more input or more room is needed.
    Inside,
    /// Between two symbols of a block that has begun.
    Symbol,
    /// Before a block.
    Block,
    /// Behind the last block.
    End,
}

/// What a call of `Stream::inflate` has done.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Bytes taken from the input.
    pub taken: usize,
    /// Plain bytes written.
    pub made: usize,
    /// Bits of the last byte taken that have not been decoded yet.
    pub unused: u64,
    /// Where the stream is now.
    pub place: Place,
}

/// zlib's inflate.
pub struct Stream(Box<z_stream>);

// SAFETY: the stream owns its state, which no thread shares.
unsafe impl Send for Stream {}

impl Stream {
    /// A stream of which nothing has been read.
    pub fn new() -> Result<Self, Fault> {
        let mut stream = Box::new(z_stream::default());
        // SAFETY: the stream is a fresh one, and version and size are those of the library itself.
        let code = unsafe {
            inflateInit2_(&raw mut *stream, RAW, zlibVersion(), size_of::<z_stream>() as c_int)
        };
        if code == Z_OK {
            Ok(Self(stream))
        } else {
            Err(Fault::Memory(size_of::<z_stream>() as u64))
        }
    }

    /// Begin another stream.
    pub fn reset(&mut self) {
        // SAFETY: `new` has initialised the stream.
        unsafe { inflateReset(&raw mut *self.0) };
    }

    /// Decode until the input, which is from byte `at` of the file, is used up, the room is full,
    /// or a block has ended.
    pub fn inflate(&mut self, at: u64, input: &[u8], room: &mut [u8]) -> Result<Step, Fault> {
        let (have, free) = (input.len().min(u32::MAX as usize), room.len().min(u32::MAX as usize));
        self.0.next_in = input.as_ptr();
        self.0.avail_in = have as u32;
        self.0.next_out = room.as_mut_ptr();
        self.0.avail_out = free as u32;
        // SAFETY: `new` has initialised the stream, whose pointers are those of two live slices of
        // at least these lengths.
        let code = unsafe { inflate(&raw mut *self.0, Z_BLOCK) };
        let between = self.0.data_type & BETWEEN != 0 && self.0.data_type & LAST == 0;
        let place = match code {
            Z_STREAM_END => Place::End,
            Z_OK | Z_BUF_ERROR if between => Place::Block,
            Z_OK | Z_BUF_ERROR if self.is_between_symbols() => Place::Symbol,
            Z_OK | Z_BUF_ERROR => Place::Inside,
            Z_MEM_ERROR => return Err(Fault::Memory(0)),
            _ => {
                let near = at + (have - self.0.avail_in as usize) as u64;
                return corrupt(format!(
                    "has corrupt gzip data: {} near byte {near}",
                    self.reason()
                ));
            }
        };
        Ok(Step {
            taken: have - self.0.avail_in as usize,
            made: free - self.0.avail_out as usize,
            unused: (self.0.data_type & UNUSED) as u64,
            place,
        })
    }

    /// zlib's mark is bits used of a symbol (above 16 bits) and bytes left to copy: all 0 only
    /// between two symbols.
    fn is_between_symbols(&self) -> bool {
        // SAFETY: `new` has initialised the stream.
        unsafe { inflateMark(&raw const *self.0) == 0 }
    }

    /// What is wrong with the stream.
    fn reason(&self) -> String {
        if self.0.msg.is_null() {
            return BAD_CODE.into();
        }
        // SAFETY: zlib's messages are constant strings that end with a zero byte.
        let said = unsafe { CStr::from_ptr(self.0.msg) }.to_string_lossy();
        // What the fast loop of zlib-rs finds is said in these words, which are about calls, not
        // about data.
        if said.starts_with("repeated call") { BAD_CODE.into() } else { said.into_owned() }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: `new` has initialised the stream, and nobody uses it any more.
        unsafe { inflateEnd(&raw mut *self.0) };
    }
}
