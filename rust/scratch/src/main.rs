//! A file system for scratch: names in memory, contents in one large file, through FUSE.

mod arguments;
mod attributes;
mod contents;
mod directory;
mod extended;
mod extents;
mod filesystem;
mod image;
mod inodes;
mod names;
mod namespace;
mod replies;
mod serving;
mod space;

use std::io;
use std::num::NonZero;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use hyperslab_programs::starting::{
    end_together, end_with_input, ending_signals, fail_at_limits, say_ready,
};
use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::SigSet;
use nix::unistd::{getegid, geteuid};

use crate::arguments::{Arguments, Mounting};
use crate::contents::Contents;
use crate::extents::Run;
use crate::image::Image;
use crate::names::Names;
use crate::serving::ScratchFs;

/// Threads that take requests, any of which may wait for the directory beneath: one for each
/// processor, but no fewer and no more than these. What more of them do is to take turns.
const FEWEST_THREADS: usize = 2;
const MOST_THREADS: usize = 8;
/// How often holes are made of what no file has any more, and room is looked for where was none.
const TENDING_PERIOD: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    if given.first().is_some_and(|first| first == "--help") {
        print!("{}", arguments::USAGE);
        return ExitCode::SUCCESS;
    }
    let done = arguments::parse(given).and_then(|arguments| match arguments {
        Arguments::Mount(mounting) => serve(&mounting),
        Arguments::Enter { pid, command } => {
            let why = namespace::enter(pid, &command);
            Err(format!("{} could not be run beside process {pid}: {why}", command[0]))
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn serve(mounting: &Mounting) -> Result<(), String> {
    let contents = Arc::new(Contents::new(images(mounting)?));
    if mounting.in_namespace {
        namespace::leave(&mounting.beside)
            .map_err(|error| format!("there is no user namespace to be had: {error}"))?;
    }
    end_together();
    fail_at_limits().map_err(|errno| errno.desc().to_string())?;
    let signals = ending_signals().map_err(|errno| errno.desc().to_string())?;
    let names = Names::new(geteuid().as_raw(), getegid().as_raw(), contents.blocks());
    let filesystem = ScratchFs::new(names, contents.clone(), mounting.has_extended);
    let mut session = Session::new(filesystem, &mounting.mountpoint, &config(mounting))
        .map_err(|error| error.to_string())?;
    begin(mounting, contents, signals, session.unmount_callable())
        .map_err(|error| error.to_string())?;
    session.run().map_err(|error| error.to_string())
}

/// Say that all is made once the kernel has asked for the root, and knows it from then on.
fn greet(mountpoint: &Path) {
    if let Err(error) = std::fs::metadata(mountpoint).and_then(|_| say_ready()) {
        eprintln!("{} does not answer: {error}", mountpoint.display());
        std::process::exit(1);
    }
}

fn threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(FEWEST_THREADS, NonZero::get);
    processors.clamp(FEWEST_THREADS, MOST_THREADS)
}

/// The images, each behind the blocks of the one before, of which it is no neighbour.
fn images(mounting: &Mounting) -> Result<Vec<Image>, String> {
    let mut images = Vec::new();
    let mut start = 0;
    for place in &mounting.places {
        let run = Run { start, blocks: place.blocks };
        let image = Image::create(&place.directory, &format!(".{}", mounting.name), run);
        let shown = place.directory.display();
        images.push(image.map_err(|error| format!("nothing can be written in {shown}: {error}"))?);
        start = run.end() + 1;
    }
    Ok(images)
}

/// Nobody but the user is let in, so that the kernel need not check permissions on each step of a
/// path (`default_permissions`): it would ask for attributes of directories that have changed.
fn config(mounting: &Mounting) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(mounting.name.clone()),
        MountOption::Subtype("hyperslab".into()),
        MountOption::NoSuid,
        MountOption::NoDev,
    ];
    config.acl = SessionACL::Owner;
    config.n_threads = Some(threads());
    config
}

/// Start what goes on beside the requests.
fn begin(
    mounting: &Mounting,
    contents: Arc<Contents>,
    signals: SigSet,
    unmounter: SessionUnmounter,
) -> io::Result<()> {
    let unmounter = Arc::new(Mutex::new(unmounter));
    let for_signals = unmounter.clone();
    let mountpoint = mounting.mountpoint.clone();
    spawn("signals", move || unmount_on(signals, &for_signals, &mountpoint))?;
    if mounting.has_lifeline {
        let mountpoint = mounting.mountpoint.clone();
        spawn("lifeline", move || {
            end_with_input(|| unmounter.lock().unwrap().unmount(), &mountpoint);
        })?;
    }
    let mountpoint = mounting.mountpoint.clone();
    spawn("greeting", move || greet(&mountpoint))?;
    spawn("holes", move || {
        loop {
            contents.readmit();
            contents.punch();
            std::thread::sleep(TENDING_PERIOD);
        }
    })
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(run)?;
    Ok(())
}

/// Unmount on a signal; while somebody is in the directory, say so and go on.
fn unmount_on(signals: SigSet, unmounter: &Mutex<SessionUnmounter>, mountpoint: &Path) {
    while signals.wait().is_ok() {
        if let Err(error) = unmount(unmounter, mountpoint) {
            eprintln!("not unmounted: {error}");
        }
    }
}

/// Unmount, if nobody is in the directory. The session does so where this program may not, and
/// tries it once only.
fn unmount(unmounter: &Mutex<SessionUnmounter>, mountpoint: &Path) -> io::Result<()> {
    match umount2(mountpoint, MntFlags::empty()) {
        Err(Errno::EPERM) => unmounter.lock().unwrap().unmount(),
        done => Ok(done?),
    }
}
