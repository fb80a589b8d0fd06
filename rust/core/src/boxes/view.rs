//! Memory that is read in the order in which it lies, whatever the strides.

/// Elements in memory, from slowest to fastest.
#[derive(Clone, Debug)]
pub struct View {
    pointer: *const u8,
    axes: Vec<Axis>,
    /// Elements.
    pub size: usize,
}

/// How many elements, and how many bytes from one to the next, at least 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Elements.
    pub count: usize,
    /// Bytes from one to the next.
    pub stride: isize,
}

// SAFETY: a View only reads, and whoever makes one vouches that its memory lives while it is in
// use.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// # Safety
    /// Every element that shape and strides (in bytes) reach from the pointer is readable while the
    /// view lives.
    pub unsafe fn new(pointer: *const u8, shape: &[usize], strides: &[isize]) -> Self {
        let size = shape.iter().product();
        let mut axes: Vec<Axis> =
            shape.iter().zip(strides).map(|(&count, &stride)| Axis { count, stride }).collect();
        axes.retain(|axis| axis.count > 1);
        if size == 0 {
            return Self { pointer, axes: Vec::new(), size };
        }
        let back: isize =
            axes.iter().map(|axis| axis.stride.min(0) * (axis.count as isize - 1)).sum();
        for axis in &mut axes {
            axis.stride = axis.stride.abs();
        }
        axes.sort_by_key(|axis| std::cmp::Reverse(axis.stride));
        // SAFETY: `back` leads to the element at the end of every axis of negative stride.
        Self { pointer: unsafe { pointer.offset(back) }, axes: joined(&axes), size }
    }

    /// Call `line(first element, count, stride)` for every line along the fastest axis.
    pub fn lines<E>(
        &self,
        line: &mut impl FnMut(*const u8, Axis) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.size == 0 { Ok(()) } else { walk(self.pointer, &self.axes, line) }
    }
}

fn walk<E>(
    pointer: *const u8,
    axes: &[Axis],
    line: &mut impl FnMut(*const u8, Axis) -> Result<(), E>,
) -> Result<(), E> {
    match axes {
        [] => line(pointer, Axis { count: 1, stride: 0 }),
        [axis] => line(pointer, *axis),
        [axis, inner @ ..] => (0..axis.count as isize)
            // wrapping: the address is used only to read what `View::new` was promised
            .try_for_each(|index| walk(pointer.wrapping_offset(index * axis.stride), inner, line)),
    }
}

/// Neighbouring axes that are one run are one axis.
fn joined(axes: &[Axis]) -> Vec<Axis> {
    let mut all: Vec<Axis> = Vec::with_capacity(axes.len());
    for &axis in axes {
        match all.last_mut() {
            Some(outer) if outer.stride == axis.stride * axis.count as isize => {
                *outer = Axis { count: outer.count * axis.count, stride: axis.stride };
            }
            _ => all.push(axis),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(shape: &[usize], strides: &[isize]) -> Vec<Axis> {
        // SAFETY: nothing is read.
        unsafe { View::new([0u8; 240].as_ptr(), shape, strides) }.axes
    }

    #[test]
    fn runs_are_joined() {
        assert_eq!(axes(&[3, 4, 5], &[40, 10, 2]), [Axis { count: 60, stride: 2 }]);
        assert_eq!(axes(&[5, 4, 3], &[2, 10, 40]), [Axis { count: 60, stride: 2 }]);
        assert_eq!(axes(&[1, 1], &[7, 7]), []);
        assert_eq!(
            axes(&[3, 4], &[20, 2]),
            [Axis { count: 3, stride: 20 }, Axis { count: 4, stride: 2 }]
        );
    }

    #[test]
    fn negative_strides_are_walked_from_the_other_end() {
        let values = [0u8, 1, 2, 3, 4, 5];
        // SAFETY: the last value is the first element, and all others lie before it.
        let view = unsafe { View::new(&raw const values[5], &[2, 3], &[-3, -1]) };
        let mut found = Vec::new();
        let _ = view.lines(&mut |pointer, line| {
            found.push((pointer, line));
            Ok::<(), ()>(())
        });
        assert_eq!(found, [(values.as_ptr(), Axis { count: 6, stride: 1 })]);
    }
}
