//! A limit on the size of files (`ulimit -f`) is raised as far as the user may raise it, and a write
//! beyond that fails. It is one of the whole process, which is this test's alone.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use hyperslab_programs::starting::fail_at_limits;
use nix::sys::resource::{Resource, setrlimit};

const ASKED: u64 = 1 << 20;
const MOST: u64 = 2 << 20;

#[test]
fn a_write_beyond_a_limit_fails_and_ends_nothing() {
    setrlimit(Resource::RLIMIT_FSIZE, ASKED, MOST).unwrap();
    fail_at_limits().unwrap();
    let path = std::env::temp_dir().join(format!("hyperslab-limits-{}", std::process::id()));
    let file = File::create_new(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(file.write_at(b"x", ASKED).unwrap(), 1);
    let refused = file.write_at(b"x", MOST).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EFBIG));
}
