//! Single compressed streams: what chunks, and the blocks inside of other containers, are made of.
use std::cell::RefCell;
use std::ffi::c_int;

use libdeflater::Decompressor;
use lz4_sys::LZ4_decompress_safe;
use zstd::zstd_safe::{DCtx, get_error_name};

use crate::error::{Fault, corrupt};

thread_local! {
    static INFLATE: RefCell<Decompressor> = RefCell::new(Decompressor::new());
    static UNZSTD: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// Decode one LZ4 block; how many bytes came out.
pub(crate) fn unlz4(stored: &[u8], plain: &mut [u8]) -> Result<usize, Fault> {
    let (Ok(from), Ok(to)) = (c_int::try_from(stored.len()), c_int::try_from(plain.len())) else {
        return corrupt("an lz4 block is longer than any can be");
    };
    // SAFETY: both slices have these lengths; the function reads and writes within them, whatever
    // they hold (lz4.h).
    let count =
        unsafe { LZ4_decompress_safe(stored.as_ptr().cast(), plain.as_mut_ptr().cast(), from, to) };
    usize::try_from(count).or_else(|_| corrupt("its lz4 data are corrupt"))
}

/// Decode Zstandard frames; how many bytes came out.
pub(crate) fn unzstd(stored: &[u8], plain: &mut [u8]) -> Result<usize, Fault> {
    UNZSTD.with_borrow_mut(|kept| {
        let Some(context) = kept.take().or_else(DCtx::try_create) else {
            return Err(Fault::Memory(0));
        };
        kept.insert(context).decompress(plain, stored).or_else(|code| {
            corrupt(format!("its zstd data are corrupt ({})", get_error_name(code)))
        })
    })
}

/// Decode a zlib stream; how many bytes came out.
pub(crate) fn inflate(stored: &[u8], plain: &mut [u8]) -> Result<usize, Fault> {
    use libdeflater::DecompressionError::{BadData, InsufficientSpace};
    INFLATE.with_borrow_mut(|inflate| match inflate.zlib_decompress(stored, plain) {
        Ok(count) => Ok(count),
        Err(BadData) => corrupt("its deflate data are corrupt or end too early"),
        Err(InsufficientSpace) => corrupt("its deflate data are too long"),
    })
}
