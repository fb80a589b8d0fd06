//! Gzip files (RFC 1952) entered in the middle: points from which a deflate stream (RFC 1951) can
//! be decoded on, each with the window of plain bytes before it. The idea is zlib's example zran.c.
//!
//! `build` makes the points in one pass, `read` decodes the intervals between them, each for
//! itself.
use crate::error::{Fault, corrupt, misplaced};

/// Plain bytes that a deflate stream may refer back to (RFC 1951, section 2).
pub const WINDOW: usize = 32 * 1024;
/// No interval is longer, in plain bytes; longer ones would need that much memory to be entered.
pub const LARGEST_PLAIN: u64 = 64 << 20;
/// No interval takes more stored bytes.
pub const LARGEST_STORED: u64 = 64 << 20;
/// What is said of an index that is not the one that was stored, or of its windows.
pub(crate) const DAMAGED: &str = "has a damaged gzip index";
/// Numbers of a point in the columns of an index.
pub const COLUMNS: usize = 8;

/// Where in the gzip format a point lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Before a member's header, or where a file ends.
    Member,
    /// Before a block of a deflate stream.
    Block,
    /// Between two symbols of a block with fixed codes.
    Fixed,
    /// The same, in the last block of its stream.
    LastFixed,
}

/// A place from which the file can be decoded, and what is known of the interval that begins there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Plain bytes before it.
    pub plain: u64,
    /// Bits of the file before it; bits are counted from the lowest of a byte.
    pub bit: u64,
    /// What begins there.
    pub kind: Kind,
    /// First byte of the window among all stored windows.
    pub window_at: u64,
    /// Bytes of the stored window: raw, or deflated if fewer than below.
    pub window_stored: usize,
    /// Bytes of the window, at most `WINDOW`.
    pub window_plain: usize,
    /// CRC-32 of the stored window.
    pub window_crc: u32,
    /// CRC-32 of the plain bytes up to the next point.
    pub crc: u32,
}

impl Kind {
    /// Whether a block with fixed codes has begun before.
    pub fn is_fixed(self) -> bool {
        matches!(self, Self::Fixed | Self::LastFixed)
    }
}

impl Point {
    /// As a row of columns.
    pub fn row(&self) -> [i64; COLUMNS] {
        [
            self.plain as i64,
            self.bit as i64,
            self.kind as i64,
            self.window_at as i64,
            self.window_stored as i64,
            self.window_plain as i64,
            i64::from(self.window_crc),
            i64::from(self.crc),
        ]
    }

    fn from_row(row: &[i64]) -> Option<Self> {
        let &[plain, bit, kind, window_at, window_stored, window_plain, window_crc, crc] = row
        else {
            return None;
        };
        let kind = [Kind::Member, Kind::Block, Kind::Fixed, Kind::LastFixed]
            .into_iter()
            .find(|&known| known as i64 == kind)?;
        let (window_stored, window_plain) =
            (usize::try_from(window_stored).ok()?, usize::try_from(window_plain).ok()?);
        let whole = kind != Kind::Member || bit % 8 == 0;
        let sound = whole && window_plain <= WINDOW && window_stored <= window_plain;
        sound.then_some(Self {
            plain: plain.try_into().ok()?,
            bit: bit.try_into().ok()?,
            kind,
            window_at: window_at.try_into().ok()?,
            window_stored,
            window_plain,
            window_crc: window_crc.try_into().ok()?,
            crc: crc.try_into().ok()?,
        })
    }
}

/// The points of rows that a build has made; whatever else they are is a fault.
pub fn points(rows: &[i64]) -> Result<Vec<Point>, Fault> {
    let points: Option<Vec<Point>> = rows.chunks(COLUMNS).map(Point::from_row).collect();
    match points {
        Some(points) if !points.is_empty() && points.windows(2).all(follows) => Ok(points),
        _ => misplaced(DAMAGED),
    }
}

fn follows(pair: &[Point]) -> bool {
    let (Some(plain), Some(bits)) =
        (pair[1].plain.checked_sub(pair[0].plain), pair[1].bit.checked_sub(pair[0].bit))
    else {
        return false;
    };
    plain <= LARGEST_PLAIN && bits / 8 <= LARGEST_STORED
}

/// Bytes of a file from the one that holds a point's first bit up to the one that holds the last
/// bit before another.
pub fn stored_span(first: &Point, next: &Point) -> (u64, usize) {
    let at = first.bit / 8;
    (at, (next.bit.div_ceil(8) - at) as usize)
}

/// Length of the gzip header that these bytes begin with; None if they end within it.
pub fn header_nbytes(bytes: &[u8]) -> Result<Option<usize>, Fault> {
    const CHECKSUM: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    if !bytes.starts_with(&MAGIC[..bytes.len().min(2)]) {
        return corrupt("is followed by bytes that are not gzip data");
    }
    let Some(&[.., method, flags]) = bytes.get(..4) else { return Ok(None) };
    if method != 8 {
        return corrupt(format!("has a gzip member of the unknown compression method {method}"));
    }
    let mut nbytes = 10;
    if flags & EXTRA != 0 {
        let Some(&[low, high]) = bytes.get(nbytes..nbytes + 2) else { return Ok(None) };
        nbytes += 2 + usize::from(u16::from_le_bytes([low, high]));
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            let rest = bytes.get(nbytes..).unwrap_or_default();
            let Some(length) = rest.iter().position(|&byte| byte == 0) else { return Ok(None) };
            nbytes += length + 1;
        }
    }
    nbytes += if flags & CHECKSUM != 0 { 2 } else { 0 };
    Ok((nbytes <= bytes.len()).then_some(nbytes))
}

/// The first two bytes of every member.
pub const MAGIC: [u8; 2] = [0x1f, 0x8b];
/// CRC-32 and length of the plain bytes, behind every member's deflate stream.
pub const TRAILER: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_every_kind() {
        let head = |flags: u8| vec![0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 255];
        assert_eq!(header_nbytes(&head(0)), Ok(Some(10)));
        let full =
            [head(31), vec![3, 0, 1, 2, 3], b"name\0".to_vec(), b"comment\0".to_vec(), vec![9, 9]]
                .concat();
        assert_eq!(header_nbytes(&[full.clone(), vec![7; 5]].concat()), Ok(Some(full.len())));
        for short in 0..full.len() {
            assert_eq!(header_nbytes(&full[..short]), Ok(None), "{short}");
        }
        assert!(header_nbytes(b"\x1f\x8c").is_err());
        assert!(header_nbytes(b"x").is_err());
        assert!(header_nbytes(&[0x1f, 0x8b, 7, 0]).is_err());
    }

    #[test]
    fn rows_are_checked() {
        let point = Point {
            plain: 5,
            bit: 83,
            kind: Kind::Fixed,
            window_at: 1,
            window_stored: 2,
            window_plain: 3,
            window_crc: u32::MAX,
            crc: 7,
        };
        assert_eq!(points(&point.row()), Ok(vec![point]));
        for (column, value) in
            [(0, -1), (2, 4), (2, -1), (2, 0), (4, 4), (5, 40_000), (6, -1), (7, 1 << 32)]
        {
            let mut row = point.row();
            row[column] = value;
            assert!(points(&row).is_err(), "{column}");
        }
        let earlier = Point { plain: 4, ..point };
        assert!(points(&[point.row(), earlier.row()].concat()).is_err());
        assert!(points(&point.row()[1..]).is_err());
        assert!(points(&[]).is_err());
    }
}
