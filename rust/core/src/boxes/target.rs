//! The caller's block: elements in memory with any strides, and copies of boxes into it.
use crate::boxes::region::Share;

/// Memory of a block, whose element `index` lies at `pointer` plus the sum of index times stride,
/// in bytes.
#[derive(Clone, Debug)]
pub struct Target {
    pointer: *mut u8,
    strides: Vec<isize>,
    itemsize: usize,
}

// SAFETY: whoever makes a Target vouches that its memory lives and is written by nobody else while
// it is in use; threads that share one write different elements, because the chunks of a table are
// disjoint.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

/// One axis of a copy: how many elements, and how far apart in bytes in either place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    count: usize,
    from: isize,
    to: isize,
}

impl Target {
    /// # Safety
    /// Every element of the block that strides and the region's counts reach is writable memory of
    /// `itemsize` bytes, that overlaps no other element, and stays so until the target is dropped.
    pub unsafe fn new(pointer: *mut u8, strides: Vec<isize>, itemsize: usize) -> Self {
        Self { pointer, strides, itemsize }
    }

    /// Bytes of an element.
    pub fn itemsize(&self) -> usize {
        self.itemsize
    }

    /// The memory that a share fills, if it is one run of bytes without gaps and in order in both
    /// places: its first byte and its length.
    pub fn run(&self, shares: &[Share], shape: &[i64]) -> Option<(*mut u8, usize)> {
        let axes = self.axes(shares, shape);
        match axes[..] {
            [] => Some((self.place(shares), self.itemsize)),
            [axis] if self.is_dense(axis) => Some((self.place(shares), axis.count * self.itemsize)),
            _ => None,
        }
    }

    /// Copy what a region takes of a chunk. `chunk` holds the elements from the `skip`th byte of a
    /// C-ordered chunk of `shape`; it has to reach to the last shared element.
    ///
    /// # Panics
    /// When the chunk's bytes end before its last shared element.
    pub fn scatter(&self, chunk: &[u8], skip: usize, shares: &[Share], shape: &[i64]) {
        let (first, last) = covering(shares, shape, self.itemsize);
        assert!(
            first >= skip && last - skip <= chunk.len(),
            "the chunk's bytes end before its last element"
        );
        let axes = self.axes(shares, shape);
        // SAFETY: the assertion keeps every source element within `chunk`; `new` vouches for the
        // target's elements, of which `shares` name only such that lie in the region's block.
        unsafe { self.copy(chunk.as_ptr().add(first - skip), self.place(shares), &axes) }
    }

    fn place(&self, shares: &[Share]) -> *mut u8 {
        let offset: isize = shares
            .iter()
            .zip(&self.strides)
            .map(|(share, stride)| share.place as isize * stride)
            .sum();
        // SAFETY: the first shared element is one of the block's, which `new` vouches for.
        unsafe { self.pointer.offset(offset) }
    }

    /// The axes of the copy, slowest first, without those of one element, and with neighbours
    /// joined where they are one run in both places.
    fn axes(&self, shares: &[Share], shape: &[i64]) -> Vec<Axis> {
        let rows = row_nbytes(shape, self.itemsize);
        let mut axes: Vec<Axis> = Vec::with_capacity(shares.len());
        for ((share, row), stride) in shares.iter().zip(rows).zip(&self.strides) {
            if share.count == 1 {
                continue;
            }
            let axis = Axis { count: share.count, from: (share.step * row) as isize, to: *stride };
            match axes.last_mut() {
                Some(outer)
                    if outer.from == axis.from * axis.count as isize
                        && outer.to == axis.to * axis.count as isize =>
                {
                    *outer = Axis { count: outer.count * axis.count, ..axis };
                }
                _ => axes.push(axis),
            }
        }
        axes
    }

    fn is_dense(&self, axis: Axis) -> bool {
        axis.from == self.itemsize as isize && axis.to == self.itemsize as isize
    }

    /// # Safety
    /// All elements that the axes reach from both pointers are readable or writable, respectively.
    unsafe fn copy(&self, from: *const u8, to: *mut u8, axes: &[Axis]) {
        match axes {
            // SAFETY: one element, which the caller vouches for.
            [] => unsafe { std::ptr::copy_nonoverlapping(from, to, self.itemsize) },
            // SAFETY: elements without gaps, which the caller vouches for.
            [axis] if self.is_dense(*axis) => unsafe {
                std::ptr::copy_nonoverlapping(from, to, axis.count * self.itemsize);
            },
            // SAFETY: as above; the width is that of an element.
            [axis] => unsafe {
                match self.itemsize {
                    1 => line::<1>(from, to, *axis),
                    2 => line::<2>(from, to, *axis),
                    4 => line::<4>(from, to, *axis),
                    8 => line::<8>(from, to, *axis),
                    16 => line::<16>(from, to, *axis),
                    itemsize => {
                        for index in 0..axis.count as isize {
                            let (from, to) =
                                (from.offset(index * axis.from), to.offset(index * axis.to));
                            std::ptr::copy_nonoverlapping(from, to, itemsize);
                        }
                    }
                }
            },
            // SAFETY: rows of elements without gaps, which the caller vouches for.
            [axis, row] if self.is_dense(*row) => unsafe {
                rows(from, to, *axis, row.count * self.itemsize);
            },
            [axis, inner @ ..] => {
                for index in 0..axis.count as isize {
                    // SAFETY: the elements of one step along an axis are some of those that the
                    // caller vouches for.
                    unsafe {
                        self.copy(
                            from.offset(index * axis.from),
                            to.offset(index * axis.to),
                            inner,
                        );
                    }
                }
            }
        }
    }
}

/// Bytes that are copied at once where rows are short: a call for each would take as long as the
/// copy.
const WORD: usize = 32;
/// Rows up to here are short.
const SHORT: usize = 1024;

/// # Safety
/// `nbytes` of every step along the axis are readable from one pointer and writable from the other.
unsafe fn rows(from: *const u8, to: *mut u8, axis: Axis, nbytes: usize) {
    let in_words = nbytes.is_multiple_of(WORD) && nbytes <= SHORT;
    for index in 0..axis.count as isize {
        // SAFETY: the caller vouches for it; arrays of bytes have no alignment.
        unsafe {
            let (from, to) = (from.offset(index * axis.from), to.offset(index * axis.to));
            if in_words {
                for word in (0..nbytes).step_by(WORD) {
                    to.add(word)
                        .cast::<[u8; WORD]>()
                        .write(from.add(word).cast::<[u8; WORD]>().read());
                }
            } else {
                std::ptr::copy_nonoverlapping(from, to, nbytes);
            }
        }
    }
}

/// # Safety
/// All elements of N bytes along the axis are readable from one pointer and writable from the
/// other.
unsafe fn line<const N: usize>(from: *const u8, to: *mut u8, axis: Axis) {
    for index in 0..axis.count as isize {
        // SAFETY: the caller vouches for it; arrays of bytes have no alignment.
        unsafe {
            let element = from.offset(index * axis.from).cast::<[u8; N]>().read();
            to.offset(index * axis.to).cast::<[u8; N]>().write(element);
        }
    }
}

/// The bytes of a C-ordered chunk from its first to its last shared element: (first, end).
pub fn covering(shares: &[Share], shape: &[i64], itemsize: usize) -> (usize, usize) {
    let (mut first, mut last) = (0, 0);
    for (share, row) in shares.iter().zip(row_nbytes(shape, itemsize)) {
        first += share.first * row;
        last += (share.first + (share.count - 1) * share.step) * row;
    }
    (first, last + itemsize)
}

/// Bytes from one element of a C-ordered array to the next, per axis.
fn row_nbytes(shape: &[i64], itemsize: usize) -> Vec<usize> {
    let mut rows = vec![itemsize; shape.len()];
    for axis in (1..shape.len()).rev() {
        rows[axis - 1] = rows[axis] * shape[axis] as usize;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boxes::region::Region;

    /// Copies the region of an array that is one chunk, against counting by hand.
    fn check(shape: &[i64], region: &Region, itemsize: usize, fortran: bool) {
        let size: i64 = shape.iter().product();
        let chunk: Vec<u8> = (0..size as usize * itemsize).map(|i| (i * 31 % 251) as u8).collect();
        let counts: Vec<usize> = region.count.iter().map(|&n| n as usize).collect();
        let total: usize = counts.iter().product();
        let mut strides = vec![itemsize as isize; counts.len()];
        let order: Vec<usize> =
            if fortran { (0..counts.len()).collect() } else { (0..counts.len()).rev().collect() };
        for pair in order.windows(2) {
            strides[pair[1]] = strides[pair[0]] * counts[pair[0]] as isize;
        }
        let mut block = vec![0u8; total * itemsize];
        // SAFETY: the strides are those of an array of `counts` in `block`.
        let target = unsafe { Target::new(block.as_mut_ptr(), strides.clone(), itemsize) };
        let shares = region.share(&vec![0; shape.len()], shape).unwrap();
        let (first, last) = covering(&shares, shape, itemsize);
        target.scatter(&chunk[first..last], first, &shares, shape);
        for number in 0..total {
            let (mut rest, mut from, mut to) = (number, 0, 0);
            for axis in (0..counts.len()).rev() {
                let index = rest % counts[axis];
                rest /= counts[axis];
                let row: i64 = shape[axis + 1..].iter().product();
                from += (region.start[axis] + index as i64 * region.stride[axis]) * row;
                to += index as isize * strides[axis];
            }
            let (from, to) = (from as usize * itemsize, to as usize);
            assert_eq!(block[to..to + itemsize], chunk[from..from + itemsize]);
        }
    }

    #[test]
    fn boxes_of_every_kind() {
        let region = |start: [i64; 3], count: [i64; 3], stride: [i64; 3]| Region {
            start: start.to_vec(),
            count: count.to_vec(),
            stride: stride.to_vec(),
        };
        for itemsize in [1, 2, 3, 4, 8, 16] {
            for fortran in [false, true] {
                check(&[4, 5, 6], &region([0, 0, 0], [4, 5, 6], [1, 1, 1]), itemsize, fortran);
                check(&[4, 5, 6], &region([1, 0, 0], [2, 5, 6], [1, 1, 1]), itemsize, fortran);
                check(&[4, 5, 6], &region([1, 1, 2], [2, 3, 2], [2, 1, 3]), itemsize, fortran);
                check(&[4, 5, 6], &region([3, 4, 5], [1, 1, 1], [1, 1, 1]), itemsize, fortran);
            }
        }
    }
}
