//! What is written down: a row for each file of a call, and every path once.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

use crate::kernel::Faults;
use crate::paths::Paths;
use crate::plans::Plans;
use crate::record::{Files, Seen};

const HAS_FAILED: u8 = 1;
const IS_MADE: u8 = 2;
const BUFFER_NBYTES: usize = 1 << 18;

/// Rows of calls, in a directory.
pub struct Rows {
    into: PathBuf,
    out: BufWriter<File>,
    paths: Paths<BufWriter<File>>,
    /// What the clock of the kernel lacks to the wall clock.
    wall_ns: i64,
}

impl Rows {
    /// No rows as yet.
    pub fn create(into: &Path) -> io::Result<Self> {
        let file = |name: &str| {
            let made = File::create_new(into.join(name))?;
            Ok::<_, io::Error>(BufWriter::with_capacity(BUFFER_NBYTES, made))
        };
        Ok(Self {
            into: into.to_path_buf(),
            out: file("rows")?,
            paths: Paths::new(file("paths")?),
            wall_ns: wall_ns()?,
        })
    }

    /// Write down a call.
    pub fn add(&mut self, seen: &Seen, plans: &Plans) -> io::Result<()> {
        let Some(call) = plans.place(seen.call) else {
            return Ok(());
        };
        match seen.files {
            Files::None => Ok(()),
            // What is looked at for its own sake has no file.
            Files::Unknown | Files::Open(None, None) => {
                let path = self.paths.unknown()?;
                self.write(seen, call, 0, path)
            }
            Files::Named(name, folder) => {
                let path = self.paths.named(name, folder)?;
                self.write(seen, call, 0, path)
            }
            Files::Open(first, second) => {
                for (side, names) in [(0, first), (1, second)] {
                    if let Some(names) = names {
                        let path = self.paths.open(names)?;
                        self.write(seen, call, side, path)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Write down all that has not been yet, and what went wrong.
    pub fn finish(mut self, faults: &Faults) -> io::Result<()> {
        self.out.flush()?;
        self.paths.finish()?;
        fs::write(self.into.join("faults"), faults.told())
    }

    fn write(&mut self, seen: &Seen, call: u16, side: u8, path: i32) -> io::Result<()> {
        let mut flags = 0;
        if seen.result < 0 && seen.result >= -4095 {
            flags |= HAS_FAILED;
        }
        if seen.is_made {
            flags |= IS_MADE;
        }
        let mut row = [0; 40];
        row[..8].copy_from_slice(&(seen.start_ns + self.wall_ns).to_le_bytes());
        row[8..16].copy_from_slice(&seen.duration_ns.to_le_bytes());
        row[16..24].copy_from_slice(&seen.nbytes.to_le_bytes());
        row[24..28].copy_from_slice(&seen.process.to_le_bytes());
        row[28..32].copy_from_slice(&path.to_le_bytes());
        row[32..34].copy_from_slice(&call.to_le_bytes());
        row[34..36].copy_from_slice(&[side, flags]);
        self.out.write_all(&row)
    }
}

/// What the clock that runs since the machine started lacks to the wall clock.
fn wall_ns() -> io::Result<i64> {
    let since = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
    Ok(wall.as_nanos() as i64 - (since.tv_sec() * 1_000_000_000 + since.tv_nsec()))
}
