//! Gzip files of many makers, indexed and read in pieces, against the bytes that went into them.
use std::fs::File;
use std::io::Write;
use std::mem::size_of;
use std::os::fd::AsRawFd;

use hyperslab_core::boxes::region::Region;
use hyperslab_core::boxes::target::Target;
use hyperslab_core::error::Fault;
use hyperslab_core::gzip::build::{Built, Order, build};
use hyperslab_core::gzip::points::{Point, points};
use hyperslab_core::gzip::read::{Block, Plain, Source, Windows, read, rows};
use hyperslab_core::io::pool::Width;
use libdeflater::{CompressionLvl, Compressor};
use libz_rs_sys::{
    Z_FINISH, Z_FIXED, Z_HUFFMAN_ONLY, Z_RLE, Z_STREAM_END, deflate, deflateEnd, deflateInit2_,
    z_stream, zlibVersion,
};

/// Numbers that deflate to about half, with long equal stretches between.
fn sample(nbytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(88_172_645_463_325_252);
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut plain = Vec::with_capacity(nbytes + 5000);
    while plain.len() < nbytes {
        match next() % 8 {
            0 => plain.extend(std::iter::repeat_n(0u8, (next() % 5000) as usize)),
            1 if plain.len() > 4000 => {
                let from = plain.len() - 1 - (next() as usize % plain.len().min(32_000));
                plain.extend_from_within(from..(from + 300).min(plain.len()));
            }
            _ => plain.extend((0..64).map(|_| (next() & 0x1f) as u8)),
        }
    }
    plain.truncate(nbytes);
    plain
}

fn by_libdeflate(plain: &[u8], level: i32) -> Vec<u8> {
    let mut pack = Compressor::new(CompressionLvl::new(level).unwrap());
    let mut stored = vec![0; pack.gzip_compress_bound(plain.len())];
    let count = pack.gzip_compress(plain, &mut stored).unwrap();
    stored.truncate(count);
    stored
}

/// Level 1 of zlib-ng and zlib-rs makes one block with fixed codes of a whole file.
fn by_zlib(plain: &[u8], level: i32, strategy: i32) -> Vec<u8> {
    let mut stream = z_stream::default();
    let mut stored = vec![0; plain.len() + plain.len() / 8 + 1000];
    // SAFETY: the stream is initialised before it is used, and its pointers are those of two live
    // slices.
    unsafe {
        let size = size_of::<z_stream>() as i32;
        assert_eq!(
            deflateInit2_(&raw mut stream, level, 8, 31, 8, strategy, zlibVersion(), size),
            0
        );
        (stream.next_in, stream.avail_in) = (plain.as_ptr(), plain.len() as u32);
        (stream.next_out, stream.avail_out) = (stored.as_mut_ptr(), stored.len() as u32);
        assert_eq!(deflate(&raw mut stream, Z_FINISH), Z_STREAM_END);
        let left = stream.avail_out as usize;
        deflateEnd(&raw mut stream);
        stored.truncate(stored.len() - left);
    }
    stored
}

fn file(stored: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(stored).unwrap();
    file
}

fn indexed(stored: &[u8], wanted: usize, spacing: u64) -> Result<(Built, Vec<u8>), Fault> {
    let (file, mut windows) = (file(stored), Vec::new());
    let order =
        Order { fd: file.as_raw_fd(), size: stored.len() as u64, wanted: wanted as u64, spacing };
    let mut keep = |window: &[u8]| {
        windows.extend_from_slice(window);
        Ok(())
    };
    let built = build(order, &mut keep, &mut |_| true)?;
    Ok((built, windows))
}

fn points_of(stored: &[u8], wanted: usize, spacing: u64) -> (Vec<Point>, Vec<u8>) {
    match indexed(stored, wanted, spacing) {
        Ok((Built::Index(found), windows)) => {
            let rows: Vec<i64> = found.iter().flat_map(Point::row).collect();
            assert_eq!(points(&rows).as_ref(), Ok(&found));
            (found, windows)
        }
        other => panic!("{other:?}"),
    }
}

/// Read a region of bytes and compare.
fn check(
    stored: &[u8],
    index: &(Vec<Point>, Vec<u8>),
    plain: &[u8],
    start: usize,
    count: usize,
    stride: usize,
) {
    let file = file(stored);
    let shape = [plain.len() as i64];
    let source = Source {
        fd: file.as_raw_fd(),
        points: &index.0,
        windows: Windows::Memory(&index.1),
        plain: Plain { offset: 0, shape: &shape, itemsize: 1 },
    };
    let region = Region {
        start: vec![start as i64],
        count: vec![count as i64],
        stride: vec![stride as i64],
    };
    let mut out = vec![0u8; count];
    // SAFETY: one axis of `count` bytes, in a vector that outlives the targets.
    let elements = unsafe { Target::new(out.as_mut_ptr(), vec![1], 1) };
    // SAFETY: as above, with an axis of one byte.
    let bytes = unsafe { Target::new(out.as_mut_ptr(), vec![1, 1], 1) };
    let block = Block { elements, bytes };
    for width in [Width { threads: 1, depth: 1 }, Width { threads: 2, depth: 3 }] {
        read(&source, &region, &block, width, &mut || true).unwrap();
        assert!(
            plain[start..].iter().step_by(stride).zip(&out).all(|(a, b)| a == b),
            "{start} {count} {stride}"
        );
        out.fill(0);
    }
}

fn check_everywhere(stored: &[u8], plain: &[u8], spacing: u64) -> Vec<Point> {
    let index = points_of(stored, plain.len(), spacing);
    check(stored, &index, plain, 0, plain.len(), 1);
    for point in &index.0 {
        let at = point.plain as usize;
        for start in [at.saturating_sub(1), at, at + 1] {
            if start + 3 < plain.len() {
                check(stored, &index, plain, start, 3, 1);
            }
        }
    }
    check(stored, &index, plain, 7, (plain.len() - 7) / 1000, 1000);
    index.0
}

#[test]
fn every_level_and_strategy() {
    let plain = sample(700_000, 1);
    for level in [1, 2, 6, 9, 12] {
        assert!(
            check_everywhere(&by_libdeflate(&plain, level), &plain, 20_000).len() > 2,
            "libdeflate {level}"
        );
    }
    for level in [0, 1, 3, 6, 9] {
        assert!(
            check_everywhere(&by_zlib(&plain, level, 0), &plain, 20_000).len() > 5,
            "zlib {level}"
        );
    }
    for strategy in [Z_FIXED, Z_RLE, Z_HUFFMAN_ONLY] {
        assert!(
            check_everywhere(&by_zlib(&plain, 6, strategy), &plain, 20_000).len() > 5,
            "strategy {strategy}"
        );
    }
}

#[test]
fn one_long_block_with_fixed_codes_is_entered_between_symbols() {
    let plain = sample(3_000_000, 2);
    let found = check_everywhere(&by_zlib(&plain, 1, 0), &plain, 100_000);
    let inside = found.iter().filter(|point| point.kind.is_fixed()).count();
    assert!(inside > 10, "{inside} points of {}", found.len());
    let shifts: std::collections::HashSet<u64> = found.iter().map(|point| point.bit % 8).collect();
    assert!(shifts.len() > 3, "points begin at {shifts:?}");
}

#[test]
fn members_empty_members_and_padding() {
    let plain = sample(500_000, 3);
    let mut stored = by_libdeflate(b"", 6);
    for (index, part) in plain.chunks(30_011).enumerate() {
        stored.extend(by_zlib(part, index as i32 % 10, 0));
        stored.extend(by_libdeflate(b"", 6));
        stored.extend(vec![0; index % 3 * 7]);
    }
    for spacing in [1000, 40_000, 100_000_000] {
        check_everywhere(&stored, &plain, spacing);
    }
    stored.extend(b"garbage");
    let refused = indexed(&stored, plain.len(), 1000);
    assert!(matches!(refused, Err(Fault::Corrupt(why)) if why.contains("not gzip data")));
}

#[test]
fn elements_may_be_split_between_intervals() {
    let plain = sample(16 * 40 * 50 * 60 + 13, 4);
    let stored = by_zlib(&plain, 6, 0);
    let (found, windows) = points_of(&stored, plain.len(), 10_000);
    assert!(found.len() > 10);
    let (file, shape) = (file(&stored), [40i64, 50, 60]);
    let source = Source {
        fd: file.as_raw_fd(),
        points: &found,
        windows: Windows::Memory(&windows),
        plain: Plain { offset: 13, shape: &shape, itemsize: 16 },
    };
    for (start, count, stride) in [
        ([0, 0, 0], [40, 50, 60], [1, 1, 1]),
        ([3, 1, 2], [5, 10, 8], [7, 4, 5]),
        ([39, 49, 59], [1, 1, 1], [1, 1, 1]),
    ] {
        let region =
            Region { start: start.to_vec(), count: count.to_vec(), stride: stride.to_vec() };
        let mut out = vec![0u8; count.iter().product::<i64>() as usize * 16];
        let strides = vec![16, 16 * count[0] as isize, 16 * (count[0] * count[1]) as isize];
        // SAFETY: the strides are those of a Fortran-ordered array of `count` elements of 16 bytes
        // in `out`.
        let elements = unsafe { Target::new(out.as_mut_ptr(), strides.clone(), 16) };
        // SAFETY: as above, with an axis of 16 bytes.
        let bytes = unsafe { Target::new(out.as_mut_ptr(), [strides, vec![1]].concat(), 1) };
        read(
            &source,
            &region,
            &Block { elements, bytes },
            Width { threads: 2, depth: 2 },
            &mut || true,
        )
        .unwrap();
        for z in 0..count[2] {
            for y in 0..count[1] {
                for x in 0..count[0] {
                    let at = |i: usize, n: i64| start[i] + n * stride[i];
                    let from = 13 + 16 * ((at(0, x) * 50 + at(1, y)) * 60 + at(2, z)) as usize;
                    let to = 16 * (x + count[0] * (y + count[1] * z)) as usize;
                    assert_eq!(out[to..to + 16], plain[from..from + 16]);
                }
            }
        }
    }
}

#[test]
fn only_intervals_with_elements_are_read() {
    let plain = sample(1_000_000, 5);
    let (found, _) = points_of(&by_zlib(&plain, 6, 0), plain.len(), 10_000);
    let shape = [1000, 1000];
    let plain = Plain { offset: 0, shape: &shape, itemsize: 1 };
    let region = |start: [i64; 2], count: [i64; 2], stride: [i64; 2]| Region {
        start: start.to_vec(),
        count: count.to_vec(),
        stride: stride.to_vec(),
    };
    assert!((1..=2).contains(&rows(&found, plain, &region([500, 0], [1, 1000], [1, 1])).len()));
    let ends = rows(&found, plain, &region([0, 0], [2, 1], [999, 1]));
    assert_eq!(ends, [0, ends[1]]);
    assert_eq!(rows(&found, plain, &region([0, 0], [1000, 1000], [1, 1])).len(), found.len() - 1);
}

#[test]
fn damage_is_noticed() {
    let plain = sample(300_000, 6);
    let stored = by_zlib(&plain, 6, 0);
    for cut in [0, 1, 2, 9, 10, 1000, stored.len() - 9, stored.len() - 8, stored.len() - 1] {
        assert!(indexed(&stored[..cut], plain.len(), 10_000).is_err(), "{cut}");
    }
    for at in (0..stored.len()).step_by(stored.len() / 300) {
        let mut mutated = stored.clone();
        mutated[at] ^= 0x10;
        let harmless = (3..10).contains(&at); // flags, time and system
        if let Ok((Built::Index(_), _)) = indexed(&mutated, plain.len(), 10_000) {
            assert!(harmless, "{at}");
        }
    }
    assert!(indexed(&stored, plain.len() + 1, 10_000).is_err(), "more is wanted than there is");
}

#[test]
fn a_file_that_changes_under_its_index_is_an_error() {
    let plain = sample(300_000, 7);
    let stored = by_zlib(&plain, 6, 0);
    let (found, windows) = points_of(&stored, plain.len(), 10_000);
    let shape = [plain.len() as i64];
    let attempt = |bytes: &[u8], windows: &[u8], found: &[Point]| {
        let file = file(bytes);
        let source = Source {
            fd: file.as_raw_fd(),
            points: found,
            windows: Windows::Memory(windows),
            plain: Plain { offset: 0, shape: &shape, itemsize: 1 },
        };
        let region = Region { start: vec![0], count: vec![shape[0]], stride: vec![1] };
        let mut out = vec![0u8; plain.len()];
        // SAFETY: one axis of all the bytes of the vector.
        let elements = unsafe { Target::new(out.as_mut_ptr(), vec![1], 1) };
        // SAFETY: as above, with an axis of one byte.
        let bytes = unsafe { Target::new(out.as_mut_ptr(), vec![1, 1], 1) };
        read(
            &source,
            &region,
            &Block { elements, bytes },
            Width { threads: 1, depth: 2 },
            &mut || true,
        )
        .map(|_| out)
    };
    assert_eq!(attempt(&stored, &windows, &found).unwrap(), plain);
    for at in (20..stored.len() - 8).step_by(stored.len() / 200) {
        let mut mutated = stored.clone();
        mutated[at] ^= 4;
        assert!(attempt(&mutated, &windows, &found).is_err(), "byte {at} of the file");
    }
    for at in (0..windows.len()).step_by(windows.len() / 50) {
        let mut mutated = windows.clone();
        mutated[at] ^= 1;
        assert!(attempt(&stored, &mutated, &found).is_err(), "byte {at} of the windows");
    }
    for row in 1..found.len() - 1 {
        let mut mutated = found.clone();
        mutated[row].bit += 1;
        assert!(attempt(&stored, &windows, &mutated).is_err(), "point {row}");
    }
    assert!(attempt(&stored[..stored.len() / 2], &windows, &found).is_err());
    for part in [&found[1..], &found[..found.len() - 1], &found[..1]] {
        assert!(attempt(&stored, &windows, part).is_err(), "intervals are missing");
    }
}

#[test]
fn what_lies_far_behind_what_is_wanted_is_checked_but_has_no_points() {
    let mut stored = by_zlib(&vec![0; 16_000_000], 9, 0);
    let (found, _) = points_of(&stored, 1000, 10_000);
    assert!(found.last().unwrap().plain < 10_000_000);
    assert_eq!(
        points_of(&[stored.clone(), by_zlib(b"more", 6, 0)].concat(), 1000, 10_000).0,
        found
    );
    let garbage = [&stored[..], b"garbage"].concat();
    let refused = indexed(&garbage, 1000, 10_000);
    assert!(matches!(refused, Err(Fault::Corrupt(why)) if why.contains("not gzip data")));
    let end = stored.len() - 5;
    stored[end] ^= 1;
    let refused = indexed(&stored, 1000, 10_000);
    assert!(matches!(refused, Err(Fault::Corrupt(why)) if why.contains("checksum")));
    let fixed = by_zlib(&sample(9_000_000, 9), 1, 0);
    assert!(points_of(&fixed, 1000, 1_000_000_000).0.last().unwrap().plain < 5_000_000);
}

#[test]
fn damage_is_named_by_its_kind_and_place() {
    let plain = sample(300_000, 10);
    let stored = by_zlib(&plain, 6, 0);
    let mut vague = 0;
    for at in (10..stored.len() - 8).step_by(stored.len() / 500) {
        let mut mutated = stored.clone();
        mutated[at] ^= 0x40;
        let Err(Fault::Corrupt(why)) = indexed(&mutated, plain.len(), 10_000) else {
            panic!("{at}")
        };
        assert!(!why.contains("call"), "{why}");
        vague +=
            usize::from(why.contains("an invalid code, or a distance too far back, near byte"));
        let place = why.rsplit(' ').find_map(|word| word.parse::<usize>().ok());
        match place {
            Some(place) => assert!(place + 8 >= at && place <= stored.len(), "{at}: {why}"),
            None => assert!(
                why.contains("checksum at byte") || why.contains("end too early"),
                "{at}: {why}"
            ),
        }
    }
    assert!(vague > 0, "zlib-rs does not say which of the two its fast loop has found");
}

#[test]
fn a_caller_that_says_no_is_obeyed() {
    let stored = by_zlib(&sample(6_000_000, 8), 6, 0);
    let file = file(&stored);
    let order = Order {
        fd: file.as_raw_fd(),
        size: stored.len() as u64,
        wanted: 6_000_000,
        spacing: 100_000,
    };
    let mut asked = 0;
    let slow = &mut |_: &[u8]| {
        std::thread::sleep(std::time::Duration::from_millis(60));
        Ok(())
    };
    let result = build(order, slow, &mut |position| {
        asked += 1;
        assert!(position <= stored.len() as u64);
        false
    });
    assert_eq!((result, asked), (Err(Fault::Cancelled), 1));
}
