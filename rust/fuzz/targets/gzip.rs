//! Any gzip file, made or mutated: an index agrees with zlib about whether it is sound, and reads
//! exactly its bytes.
#![no_main]
use std::ffi::c_int;
use std::fs::File;
use std::io::Write;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, FromRawFd};

use arbitrary::Arbitrary;
use hyperslab_core::boxes::region::Region;
use hyperslab_core::boxes::target::Target;
use hyperslab_core::gzip::build::{Built, Order, build};
use hyperslab_core::gzip::points::{COLUMNS, Point, points};
use hyperslab_core::gzip::read::{Block, Plain, Source, Windows, read};
use hyperslab_core::io::pool::Width;
use libfuzzer_sys::fuzz_target;
use libz_sys::{
    Z_FINISH, Z_OK, Z_STREAM_END, crc32, deflate, deflateEnd, deflateInit2_, deflateParams,
    inflate, inflateEnd, inflateInit2_, z_stream, zlibVersion,
};

/// Bytes of an element are fewer.
const LARGEST_ITEM: usize = 17;
/// Plain bytes that a recipe makes, at most.
const LARGEST_MADE: usize = 1 << 16;
/// Intervals of a file, at most: more windows take long, and teach nothing more.
const MOST_INTERVALS: u64 = 40;
/// Elements of a region along an axis, at most.
const LONGEST_AXIS: u64 = 50;

#[derive(Arbitrary, Debug)]
enum Piece<'a> {
    Bytes(&'a [u8]),
    Run(u8, u16),
    Again(u16, u16),
    Noise(u32, u16),
}

/// What a member is made of, and how: from each piece on by another level and strategy, after a
/// flush of this kind.
#[derive(Arbitrary, Debug)]
struct Member<'a> {
    pieces: Vec<(Piece<'a>, u8, u8, u8)>,
    memory: u8,
    flags: u8,
    zeros: u8,
}

#[derive(Arbitrary, Debug)]
enum Stored<'a> {
    Any(&'a [u8]),
    Deflated(&'a [u8]),
    Made(Vec<Member<'a>>),
}

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    stored: Stored<'a>,
    flips: Vec<(u16, u8)>,
    cut: u8,
    tail: &'a [u8],
    spacing: u16,
    offset: u16,
    itemsize: u8,
    axes: [u32; 9],
    hurt: Option<(u8, u8, i64)>,
    hurt_window: Option<u16>,
    is_wide: bool,
}

fn plain_of(pieces: &[Piece]) -> Vec<Vec<u8>> {
    let (mut all, mut parts) = (Vec::<u8>::new(), Vec::new());
    for piece in pieces {
        let first = all.len();
        match *piece {
            Piece::Bytes(bytes) => all.extend(bytes),
            Piece::Run(byte, count) => all.extend(vec![byte; (count / 2).into()]),
            Piece::Again(distance, count) => {
                for at in first..first + usize::from(count / 4) {
                    all.push(
                        all.get(at.wrapping_sub(usize::from(distance) + 1)).copied().unwrap_or(0),
                    );
                }
            }
            Piece::Noise(seed, count) => {
                let mut state = seed | 1;
                all.extend((0..count / 8).map(|_| {
                    state ^= state << 13;
                    state ^= state >> 17;
                    state ^= state << 5;
                    state.to_le_bytes()[1] & (seed >> 24) as u8
                }));
            }
        }
        parts.push(all[first..].to_vec());
        if all.len() > LARGEST_MADE {
            break;
        }
    }
    parts
}

fn head(flags: u8) -> Vec<u8> {
    let texts = [(4, &b"\x03\0abc"[..]), (8, b"name\0"), (16, b"comment\0"), (2, b"hc")];
    let mut bytes = vec![0x1f, 0x8b, 8, flags, 1, 2, 3, 4, 5, 6];
    texts.iter().filter(|(flag, _)| flags & flag != 0).for_each(|(_, text)| bytes.extend(*text));
    bytes
}

fn trailer(plain: &[u8]) -> Vec<u8> {
    // SAFETY: the pointer is that of so many bytes.
    let crc = unsafe { crc32(0, plain.as_ptr(), plain.len() as u32) } as u32;
    [crc.to_le_bytes(), (plain.len() as u32).to_le_bytes()].concat()
}

/// A stream of zlib's at an address that it keeps, which zlib has written to the first time.
fn begun(initialise: impl FnOnce(*mut z_stream, c_int) -> c_int) -> Box<z_stream> {
    let mut stream = Box::new(MaybeUninit::zeroed());
    assert_eq!(initialise(stream.as_mut_ptr(), size_of::<z_stream>() as c_int), Z_OK);
    // SAFETY: all zeros but the functions for memory, which zlib has put in.
    unsafe { stream.assume_init() }
}

fn make(member: Member) -> Vec<u8> {
    let (pieces, ways): (Vec<_>, Vec<_>) = member
        .pieces
        .into_iter()
        .map(|(piece, level, strategy, flush)| (piece, [level, strategy, flush]))
        .unzip();
    let parts = plain_of(&pieces);
    let plain = parts.concat();
    let mut room = vec![0; 2 * plain.len() + 100 * parts.len() + 1000];
    // SAFETY: the stream is initialised before it is used, and its pointers are those of live
    // slices.
    let made = unsafe {
        let memory = c_int::from(member.memory % 9) + 1;
        let mut stream =
            begun(|stream, size| deflateInit2_(stream, 6, 8, -15, memory, 0, zlibVersion(), size));
        (stream.next_out, stream.avail_out) = (room.as_mut_ptr(), room.len() as u32);
        for (part, [level, strategy, flush]) in parts.iter().zip(ways) {
            (stream.next_in, stream.avail_in) = (part.as_ptr().cast_mut(), part.len() as u32);
            deflateParams(&raw mut *stream, (level % 10).into(), (strategy % 5).into());
            deflate(&raw mut *stream, [0, 1, 2, 3, 5][usize::from(flush % 5)]);
        }
        assert_eq!(deflate(&raw mut *stream, Z_FINISH), Z_STREAM_END);
        let left = stream.avail_out as usize;
        deflateEnd(&raw mut *stream);
        room.len() - left
    };
    [head(member.flags), room[..made].to_vec(), trailer(&plain), vec![0; (member.zeros % 8).into()]]
        .concat()
}

/// The file, and whether nothing has been done to it.
fn stored(input: &mut Input) -> (Vec<u8>, bool) {
    let any = Stored::Any(&[]);
    let (mut bytes, is_made) = match std::mem::replace(&mut input.stored, any) {
        Stored::Any(bytes) => (bytes.to_vec(), false),
        // With the checksum of what zlib makes of any bytes.
        Stored::Deflated(bytes) => match inflated(bytes) {
            Some((plain, taken)) => ([&head(0), &bytes[..taken], &trailer(&plain)].concat(), true),
            None => (bytes.to_vec(), false),
        },
        Stored::Made(members) => {
            let is_made = !members.is_empty();
            (members.into_iter().take(8).flat_map(make).collect(), is_made)
        }
    };
    let length = bytes.len();
    for &(at, bits) in input.flips.iter().take(3).filter(|_| length > 0) {
        bytes[usize::from(at) % length] ^= bits;
    }
    bytes.truncate(length.saturating_sub(usize::from(input.cut.saturating_sub(200))));
    bytes.extend(input.tail);
    let is_same = input.flips.iter().take(3).all(|flip| flip.1 == 0)
        && input.tail.is_empty()
        && input.cut <= 200;
    (bytes, is_made && is_same)
}

/// What zlib makes of a deflate stream, and how many bytes that is.
fn inflated(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut plain, mut room) = (Vec::new(), vec![0; 1 << 16]);
    // SAFETY: the stream is initialised before it is used, and its pointers are those of live
    // slices.
    unsafe {
        let mut stream = begun(|stream, size| inflateInit2_(stream, -15, zlibVersion(), size));
        (stream.next_in, stream.avail_in) = (bytes.as_ptr().cast_mut(), bytes.len() as u32);
        let mut code = Z_OK;
        while code == Z_OK {
            (stream.next_out, stream.avail_out) = (room.as_mut_ptr(), room.len() as u32);
            code = inflate(&raw mut *stream, 0);
            plain.extend(&room[..room.len() - stream.avail_out as usize]);
        }
        let taken = bytes.len() - stream.avail_in as usize;
        inflateEnd(&raw mut *stream);
        (code == Z_STREAM_END).then_some((plain, taken))
    }
}

/// Where a deflate stream begins behind a member's header.
fn behind_header(bytes: &[u8]) -> Option<&[u8]> {
    let (fixed, mut rest) = bytes.split_at_checked(10)?;
    let flags = fixed[3];
    if fixed[..3] != [0x1f, 0x8b, 8] {
        return None;
    }
    if flags & 4 != 0 {
        let (length, behind) = rest.split_at_checked(2)?;
        rest = behind.get(usize::from(length[0]) + 256 * usize::from(length[1])..)?;
    }
    for _ in 0..(flags >> 3 & 1) + (flags >> 4 & 1) {
        rest = &rest[rest.iter().position(|&byte| byte == 0)? + 1..];
    }
    if flags & 2 != 0 { rest.get(2..) } else { Some(rest) }
}

/// The plain bytes of all members; None for a file that is not sound.
fn reference(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let deflated = behind_header(bytes)?;
        let (plain, taken) = inflated(deflated)?;
        let (found, rest) = deflated[taken..].split_at_checked(8)?;
        if found != trailer(&plain) {
            return None;
        }
        all.extend(plain);
        bytes = &rest[rest.iter().take_while(|&&byte| byte == 0).count()..];
    }
    Some(all)
}

fn in_memory(bytes: &[u8]) -> File {
    // SAFETY: the name ends with a zero byte, and the descriptor is a new one.
    let mut file = unsafe { File::from_raw_fd(libc::memfd_create(c"gzip".as_ptr(), 0)) };
    file.write_all(bytes).unwrap();
    file
}

/// Read a region of an array, C-ordered, into a new block of as many bytes as its elements have.
fn block(
    file: &File,
    index: (&[Point], &[u8]),
    plain: Plain,
    region: &Region,
    width: Width,
) -> Result<Vec<u8>, String> {
    let mut out = vec![0xA5; region.count.iter().product::<i64>() as usize * plain.itemsize];
    let mut strides = vec![plain.itemsize as isize; region.count.len()];
    for axis in (1..strides.len()).rev() {
        strides[axis - 1] = strides[axis] * region.count[axis] as isize;
    }
    // SAFETY: the strides are those of a C-ordered array of `count` elements in `out`.
    let elements = unsafe { Target::new(out.as_mut_ptr(), strides.clone(), plain.itemsize) };
    // SAFETY: as above, with an axis of the bytes of an element.
    let bytes = unsafe { Target::new(out.as_mut_ptr(), [strides, vec![1]].concat(), 1) };
    let source =
        Source { fd: file.as_raw_fd(), points: index.0, windows: Windows::Memory(index.1), plain };
    let result = read(&source, region, &Block { elements, bytes }, width, &mut || true);
    result.map(|_| out).map_err(|fault| format!("{fault:?}"))
}

/// A shape of three axes of so many elements or fewer, and a region of it.
fn cut(axes: &[u32; 9], elements: u64) -> ([i64; 3], Region) {
    let within = |choice: u32, most: u64| 1 + u64::from(choice) % most.max(1);
    let mut shape = [1u64; 3];
    shape[0] = within(axes[0], elements);
    shape[1] = within(axes[1], elements / shape[0]);
    shape[2] = (elements / shape[0] / shape[1]).max(1);
    shape.rotate_left(axes[2] as usize % 3);
    let mut region = Region { start: vec![], count: vec![], stride: vec![] };
    for (axis, &extent) in shape.iter().enumerate() {
        let [start, packed] = [axes[3 + axis], axes[6 + axis]];
        let (start, stride) = (within(start, extent) - 1, within(packed >> 16, 40));
        region.start.push(start as i64);
        region.stride.push(stride as i64);
        region
            .count
            .push(
                within(packed & 0xffff, (extent - start).div_ceil(stride).min(LONGEST_AXIS)) as i64
            );
    }
    (shape.map(|extent| extent as i64), region)
}

/// The bytes of a region, element by element.
fn expected(plain: &[u8], array: Plain, region: &Region) -> Vec<u8> {
    let at = |axis: usize, n: i64| region.start[axis] + n * region.stride[axis];
    let mut bytes = Vec::new();
    for i in 0..region.count[0] {
        for j in 0..region.count[1] {
            for k in 0..region.count[2] {
                let element = (at(0, i) * array.shape[1] + at(1, j)) * array.shape[2] + at(2, k);
                let first = array.offset as usize + element as usize * array.itemsize;
                bytes.extend(&plain[first..first + array.itemsize]);
            }
        }
    }
    bytes
}

fuzz_target!(|input: Input| {
    let mut input = input;
    let (bytes, is_untouched) = stored(&mut input);
    let plain = reference(&bytes);
    assert!(plain.is_some() || !is_untouched, "zlib does not read what it has made");
    let length =
        plain.as_ref().map_or(u64::from(input.axes[0] % 100_000), |plain| plain.len() as u64);
    let (offset, itemsize) =
        (u64::from(input.offset).min(length), usize::from(input.itemsize) % LARGEST_ITEM + 1);
    let (shape, region) = cut(&input.axes, (length - offset) / itemsize as u64);
    let array = Plain { offset, shape: &shape, itemsize };
    let wanted = offset + array.nbytes().unwrap();
    let (file, mut windows) = (in_memory(&bytes), Vec::new());
    let spacing = u64::from(input.spacing).max(length / MOST_INTERVALS) + 1;
    let order = Order { fd: file.as_raw_fd(), size: bytes.len() as u64, wanted, spacing };
    let mut keep = |window: &[u8]| {
        windows.extend(window);
        Ok(())
    };
    let found = match (plain.as_ref(), build(order, &mut keep, &mut |_| true)) {
        (None, Err(_) | Ok(Built::Unfit(_))) => return,
        (None, Ok(Built::Index(_))) => panic!("a file that is not sound was indexed"),
        (Some(_), Ok(Built::Unfit(why))) => panic!("a small file cannot be entered: {why}"),
        (Some(plain), Err(fault)) => {
            assert!((plain.len() as u64) < wanted, "a sound file was refused: {fault:?}");
            return;
        }
        (Some(_), Ok(Built::Index(found))) => found,
    };
    let plain = plain.unwrap();
    assert!(plain.len() as u64 >= wanted);
    assert!(
        found.len() as u64 <= length / order.spacing + 3,
        "{} points of {length} bytes",
        found.len()
    );
    let mut rows: Vec<i64> = found.iter().flat_map(Point::row).collect();
    assert_eq!(points(&rows).as_ref(), Ok(&found));
    let width =
        if input.is_wide { Width { threads: 2, depth: 3 } } else { Width { threads: 1, depth: 1 } };
    let count = [(wanted - offset) as i64];
    let flat = Plain { offset, shape: &count, itemsize: 1 };
    let all = Region { start: vec![0], count: count.to_vec(), stride: vec![1] };
    let whole = &plain[offset as usize..wanted as usize];
    if count[0] > 0 {
        assert_eq!(block(&file, (&found, &windows), flat, &all, width).as_deref(), Ok(whole));
        assert_eq!(
            block(&file, (&found, &windows), array, &region, width),
            Ok(expected(&plain, array, &region))
        );
    }
    if let Some(at) = input.hurt_window.filter(|_| !windows.is_empty()) {
        let nbytes = windows.len();
        windows[usize::from(at) % nbytes] ^= 1;
    }
    if let Some((row, column, bits)) = input.hurt {
        let at = usize::from(row) % found.len() * COLUMNS + usize::from(column) % COLUMNS;
        rows[at] ^= bits;
    }
    if let Ok(hurt) = points(&rows)
        && count[0] > 0
        && let Ok(bytes) = block(&file, (&hurt, &windows), flat, &all, width)
    {
        assert_eq!(bytes, whole, "values of a damaged index");
    }
});
