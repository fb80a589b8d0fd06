//! The points of a gzip file, in one pass over all of it and in bounded memory.
//!
//! Every member's CRC-32 and length are compared, also behind the last point. What follows a member
//! is treated as Python's gzip module does: zeros are skipped, then another member may come, and
//! anything else is an error.
use std::os::fd::RawFd;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use libdeflater::{CompressionLvl, Compressor, Crc, crc32};
use libz_rs_sys::crc32_combine;

use crate::error::{Fault, corrupt};
use crate::gzip::points::{
    Kind, LARGEST_PLAIN, LARGEST_STORED, Point, TRAILER, WINDOW, header_nbytes,
};
use crate::gzip::stream::{Place, Step, Stream};
use crate::io::positioned::pread;

/// Stored bytes read at a time.
const INPUT: usize = 256 * 1024;
/// Plain bytes decoded between two moves of the window.
const ROOM: usize = 256 * 1024;
/// Room that one symbol can fill.
const LONGEST_MATCH: usize = 258;
/// A header of more bytes is taken for damage.
const LARGEST_HEADER: usize = 128 * 1024;
/// Plain bytes behind the last one wanted before which no last point is made, as the file may well
/// end.
const BEHIND: u64 = 1 << 20;
/// libdeflate's level for windows.
const WINDOW_LEVEL: i32 = 1;
/// A window that deflates to more than so many bytes of a hundred is stored as it is.
const WORTH_PERCENT: usize = 90;
const TICK: Duration = Duration::from_millis(50);

/// What to index, and how finely.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// The open file.
    pub fd: RawFd,
    /// Its size.
    pub size: u64,
    /// Plain bytes wanted of it; what lies far behind them is checked, but has no points.
    pub wanted: u64,
    /// Plain bytes between two points, about.
    pub spacing: u64,
}

/// What a build has found.
#[derive(Debug, PartialEq, Eq)]
pub enum Built {
    /// Points in order; the last one is where the last interval ends.
    Index(Vec<Point>),
    /// The file cannot be entered in the middle, for this reason; it has not been checked beyond
    /// that place.
    Unfit(String),
}

/// Takes the windows, one after the other.
pub type Sink<'a> = dyn FnMut(&[u8]) -> Result<(), Fault> + 'a;

/// Find the points of a file; their windows go to `sink`. `go_on` is asked about every 50 ms, with
/// the stored bytes read.
pub fn build(
    order: Order,
    sink: &mut Sink,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Built, Fault> {
    let mut build = Build {
        order,
        input: Input {
            fd: order.fd,
            size: order.size,
            buffer: vec![0; INPUT],
            first: 0,
            at: 0,
            end: 0,
        },
        output: Output {
            buffer: vec![0; WINDOW + ROOM],
            begin: 0,
            end: 0,
            seen: 0,
            plain: 0,
            crc: Crc::new(),
        },
        points: Vec::new(),
        windows_nbytes: 0,
        member: Member::default(),
        interval_crc: 0,
        summed: 0,
        unfit: None,
        is_complete: false,
        pack: Compressor::new(CompressionLvl::new(WINDOW_LEVEL).unwrap_or_default()),
        sink,
    };
    build.run(go_on)?;
    if let Some(why) = build.unfit {
        return Ok(Built::Unfit(why));
    }
    let plain = build.output.plain;
    if plain < order.wanted {
        return corrupt(format!(
            "ends too early: it inflates to {plain} bytes where {} are needed",
            order.wanted
        ));
    }
    Ok(Built::Index(build.points))
}

/// The file, read from front to back.
struct Input {
    fd: RawFd,
    size: u64,
    buffer: Vec<u8>,
    /// Position in the file of the first byte of the buffer.
    first: u64,
    /// What has not been used yet is from here
    at: usize,
    /// to here.
    end: usize,
}

impl Input {
    fn rest(&self) -> &[u8] {
        &self.buffer[self.at..self.end]
    }

    /// Position in the file of the first unused byte.
    fn position(&self) -> u64 {
        self.first + self.at as u64
    }

    /// Read more behind what is left; false at the end of the file.
    fn refill(&mut self) -> Result<bool, Fault> {
        let (left, next) = (self.end - self.at, self.first + self.end as u64);
        self.buffer.copy_within(self.at..self.end, 0);
        self.first += self.at as u64;
        (self.at, self.end) = (0, left);
        let count = (self.size - next).min((self.buffer.len() - left) as u64) as usize;
        let room = &mut self.buffer[left..left + count];
        // SAFETY: the room is this buffer's own.
        unsafe { pread(self.fd, next, room.as_mut_ptr(), count, &AtomicBool::new(false))? };
        self.end += count;
        Ok(count > 0)
    }

    /// At least so many bytes, which the buffer has room for, or what the file has left.
    fn ahead(&mut self, nbytes: usize) -> Result<&[u8], Fault> {
        while self.end - self.at < nbytes && self.refill()? {}
        Ok(self.rest())
    }
}

/// The plain bytes: those of the window, and those decoded since it was moved last.
struct Output {
    buffer: Vec<u8>,
    /// Where the member's bytes begin in the buffer.
    begin: usize,
    end: usize,
    /// Up to here the checksum covers them.
    seen: usize,
    /// Plain bytes of the file so far.
    plain: u64,
    /// Of the bytes since the last cut.
    crc: Crc,
}

impl Output {
    /// Make room for a symbol.
    fn slide(&mut self) {
        if self.buffer.len() - self.end < LONGEST_MATCH {
            self.sum();
            let kept = self.end - self.window().len();
            self.buffer.copy_within(kept..self.end, 0);
            (self.begin, self.end) = (0, self.end - kept);
            self.seen = self.end;
        }
    }

    fn sum(&mut self) {
        self.crc.update(&self.buffer[self.seen..self.end]);
        self.seen = self.end;
    }

    fn window(&self) -> &[u8] {
        &self.buffer[self.begin.max(self.end.saturating_sub(WINDOW))..self.end]
    }
}

/// The member under way.
#[derive(Default)]
struct Member {
    /// Plain bytes of the file before it.
    plain: u64,
    /// CRC-32 of its plain bytes up to the last cut.
    crc: u32,
    /// First bit of the block under way.
    block: u64,
    /// The 3 bits that it begins with, once somebody has looked.
    head: Option<u16>,
}

struct Build<'a, 'b> {
    order: Order,
    input: Input,
    output: Output,
    points: Vec<Point>,
    windows_nbytes: u64,
    member: Member,
    /// CRC-32 of the interval under way, up to the last cut.
    interval_crc: u32,
    /// Plain bytes of the file up to the last cut.
    summed: u64,
    /// Why the file cannot be entered in the middle.
    unfit: Option<String>,
    /// The last point is made; what follows is only checked.
    is_complete: bool,
    pack: Compressor,
    sink: &'a mut Sink<'b>,
}

impl Build<'_, '_> {
    /// Through all members, up to the end of the file.
    fn run(&mut self, go_on: &mut dyn FnMut(u64) -> bool) -> Result<(), Fault> {
        let mut stream = Stream::new()?;
        let (mut asked, mut ended) = (Instant::now(), 0);
        while self.begin_member()? {
            stream.reset();
            loop {
                if asked.elapsed() > TICK {
                    if !go_on(self.input.position()) {
                        return Err(Fault::Cancelled);
                    }
                    asked = Instant::now();
                }
                let step = self.step(&mut stream)?;
                self.check_fitness(self.output.plain, self.input.position());
                if self.unfit.is_some() {
                    return Ok(());
                }
                if step.place == Place::End {
                    break;
                }
                if self.wants_point() {
                    self.take_point(step)?;
                }
            }
            self.end_member()?;
            ended = self.input.position();
        }
        if self.is_complete { Ok(()) } else { self.point(ended * 8, Kind::Member) }
    }

    /// Skip zeros and a header; false at the end of the file.
    fn begin_member(&mut self) -> Result<bool, Fault> {
        while !self.points.is_empty() {
            let zeros = self.input.ahead(1)?.iter().take_while(|&&byte| byte == 0).count();
            self.input.at += zeros;
            if zeros == 0 {
                break;
            }
        }
        if self.input.ahead(1)?.is_empty() {
            return Ok(false);
        }
        self.output.begin = self.output.end;
        self.member = Member { plain: self.output.plain, ..Member::default() };
        if self.points.is_empty() || self.wants_point() {
            self.point(self.input.position() * 8, Kind::Member)?;
        }
        let Some(nbytes) = header_nbytes(self.input.ahead(LARGEST_HEADER)?)? else {
            return corrupt("has a gzip header that ends too early");
        };
        self.input.at += nbytes;
        self.member.block = self.input.position() * 8;
        Ok(true)
    }

    /// Compare the checksum and the length that follow a stream.
    fn end_member(&mut self) -> Result<(), Fault> {
        self.cut();
        let length = (self.output.plain - self.member.plain) as u32;
        let at = self.input.position();
        let Some((trailer, _)) = self.input.ahead(TRAILER)?.split_first_chunk::<TRAILER>() else {
            return corrupt("has gzip data that end too early");
        };
        let trailer = u64::from_le_bytes(*trailer);
        if trailer as u32 != self.member.crc {
            return corrupt(format!(
                "has corrupt gzip data: the checksum at byte {at} does not match"
            ));
        }
        if (trailer >> 32) as u32 != length {
            return corrupt(format!(
                "has corrupt gzip data: the length at byte {} does not match",
                at + 4
            ));
        }
        self.input.at += TRAILER;
        Ok(())
    }

    /// Decode on, up to the next block at most.
    fn step(&mut self, stream: &mut Stream) -> Result<Step, Fault> {
        self.output.slide();
        if self.input.rest().is_empty() && !self.input.refill()? {
            return corrupt("has gzip data that end too early");
        }
        // A point within a block is looked for byte by byte: zlib stops between two symbols only
        // where input ends.
        let most = if self.is_late() && self.fixed_kind()?.is_some() { 1 } else { INPUT };
        let until_late =
            self.order.spacing.saturating_mul(2).saturating_sub(self.since_point().0) as usize;
        let room =
            if self.is_late() || self.is_complete { ROOM } else { until_late.max(LONGEST_MATCH) };
        let (at, input) = (self.input.position(), self.input.rest());
        let output = &mut self.output.buffer[self.output.end..];
        let (most, room) = (most.min(input.len()), room.min(output.len()));
        let step = stream.inflate(at, &input[..most], &mut output[..room])?;
        if step.taken == 0 && step.made == 0 && matches!(step.place, Place::Inside | Place::Symbol)
        {
            return corrupt(format!(
                "has corrupt gzip data: the stream does not go on at byte {at}"
            ));
        }
        self.input.at += step.taken;
        self.output.end += step.made;
        self.output.plain += step.made as u64;
        if step.place == Place::Block {
            (self.member.block, self.member.head) = (self.bit(step), None);
        }
        Ok(step)
    }

    /// The first bit that has not been decoded.
    fn bit(&self, step: Step) -> u64 {
        self.input.position() * 8 - step.unused
    }

    /// Make a point here, if there can be one.
    fn take_point(&mut self, step: Step) -> Result<(), Fault> {
        let kind = match step.place {
            Place::Block => Some(Kind::Block),
            Place::Symbol if self.is_late() => self.fixed_kind()?,
            _ => None,
        };
        kind.map_or(Ok(()), |kind| self.point(self.bit(step), kind))
    }

    fn wants_point(&self) -> bool {
        let (plain, stored) = self.since_point();
        !self.is_complete
            && (plain >= self.order.spacing || stored >= LARGEST_STORED / 4 || self.is_far_enough())
    }

    /// No block has begun for so long that a point within the one under way is better than none.
    fn is_late(&self) -> bool {
        let (plain, far) = (self.since_point().0, self.order.wanted.saturating_add(2 * BEHIND));
        !self.is_complete
            && (plain >= self.order.spacing.saturating_mul(2) || self.output.plain >= far)
    }

    fn is_far_enough(&self) -> bool {
        self.output.plain >= self.order.wanted.saturating_add(BEHIND)
    }

    /// Plain and stored bytes since the last point.
    fn since_point(&self) -> (u64, u64) {
        let (plain, bit) = self.points.last().map_or((0, 0), |last| (last.plain, last.bit));
        (self.output.plain - plain, self.input.position() - bit / 8)
    }

    /// What a point within the block under way is, if that has fixed codes (RFC 1951, section
    /// 3.2.3).
    fn fixed_kind(&mut self) -> Result<Option<Kind>, Fault> {
        let head = match self.member.head {
            Some(known) => known,
            None => self.head_of_block()?,
        };
        self.member.head = Some(head);
        Ok(match head {
            0b010 => Some(Kind::Fixed),
            0b011 => Some(Kind::LastFixed),
            _ => None,
        })
    }

    fn head_of_block(&self) -> Result<u16, Fault> {
        let (at, mut bytes) = (self.member.block / 8, [0u8; 2]);
        let count = (self.order.size - at).min(2) as usize;
        // SAFETY: the two bytes are this function's own.
        unsafe { pread(self.order.fd, at, bytes.as_mut_ptr(), count, &AtomicBool::new(false))? };
        Ok(u16::from_le_bytes(bytes) >> (self.member.block % 8) & 0b111)
    }

    /// Add the bytes since the last cut to the checksums of interval and member.
    fn cut(&mut self) {
        self.output.sum();
        let (crc, nbytes) = (self.output.crc.sum(), (self.output.plain - self.summed) as i64);
        self.interval_crc = crc32_combine(self.interval_crc.into(), crc.into(), nbytes) as u32;
        self.member.crc = crc32_combine(self.member.crc.into(), crc.into(), nbytes) as u32;
        (self.output.crc, self.summed) = (Crc::new(), self.output.plain);
    }

    /// End an interval and begin another.
    fn point(&mut self, bit: u64, kind: Kind) -> Result<(), Fault> {
        self.cut();
        self.check_fitness(self.output.plain, bit.div_ceil(8));
        if let Some(last) = self.points.last_mut() {
            last.crc = self.interval_crc;
        }
        self.interval_crc = 0;
        let window = if kind == Kind::Member { &[] } else { self.output.window() };
        let mut packed = vec![0; window.len() * WORTH_PERCENT / 100];
        let count = self.pack.deflate_compress(window, &mut packed).unwrap_or(0);
        let stored = if count > 0 { &packed[..count] } else { window };
        (self.sink)(stored)?;
        self.points.push(Point {
            plain: self.output.plain,
            bit,
            kind,
            window_at: self.windows_nbytes,
            window_stored: stored.len(),
            window_plain: window.len(),
            window_crc: crc32(stored),
            crc: 0,
        });
        self.windows_nbytes += stored.len() as u64;
        self.is_complete = self.is_far_enough();
        Ok(())
    }

    /// Notice an interval, from the last point to here, that is too long.
    fn check_fitness(&mut self, plain: u64, stored: u64) {
        let Some(last) = self.points.last().filter(|_| !self.is_complete) else { return };
        if plain - last.plain > LARGEST_PLAIN || stored - last.bit / 8 > LARGEST_STORED {
            let (limit, at) = (LARGEST_PLAIN >> 20, last.bit / 8);
            self.unfit = Some(format!(
                "no place to enter it was found for {limit} MiB behind its byte {at}"
            ));
        }
    }
}
