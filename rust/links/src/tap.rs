//! A TAP device in a network namespace: what a node takes for its network card.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use nix::sched::{CloneFlags, setns};

use crate::config::Port;
use crate::frame::{Address, HEADER, Mode};

/// Frames for which there is room in a device until the program takes them.
const ROOM: libc::c_int = 1_000;
/// Where a namespace lists its devices, and what they have not sent.
const STATISTICS: &str = "/proc/thread-self/net/dev";
/// The most of that list that is read.
const STATISTICS_NBYTES: usize = 1 << 16;
/// The column of frames that a device has not sent, behind its name.
const NOT_SENT: usize = 11;

/// A TAP device, which is gone when this value is.
pub struct Tap {
    device: File,
    statistics: File,
    name: String,
    port: String,
    is_gone: bool,
}

impl Tap {
    /// Make the device of a port in its namespace; a sentence if that fails.
    ///
    /// The thread that calls this is in the namespace meanwhile.
    pub fn open(port: &Port, mode: Mode) -> Result<Self, String> {
        let shown = port.namespace.display();
        let namespace = File::open(&port.namespace)
            .map_err(|error| format!("the namespace {shown} cannot be opened: {error}"))?;
        let own = File::open("/proc/thread-self/ns/net").map_err(|error| error.to_string())?;
        setns(namespace, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| format!("{shown} cannot be entered: {}", errno.desc()))?;
        let made = Self::make(port, mode);
        setns(own, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| format!("there is no way back from {shown}: {}", errno.desc()))?;
        made.map_err(|(what, error)| {
            format!("device {:?} in {shown}: {what}: {error}", port.device)
        })
    }

    fn make(port: &Port, mode: Mode) -> Result<Self, (&'static str, io::Error)> {
        let failed = |what| move |error| (what, error);
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(failed("/dev/net/tun cannot be opened"))?;
        create(&device, &port.device, mode).map_err(failed("it cannot be made"))?;
        let socket = socket().map_err(failed("no socket"))?;
        set_address(&socket, &port.device, port.address).map_err(failed("it takes no address"))?;
        set_room(&socket, &port.device).map_err(failed("the room of its queue cannot be set"))?;
        let statistics = File::open(STATISTICS).map_err(failed("/proc cannot be read"))?;
        let name = port.device.clone();
        Ok(Self { device, statistics, name, port: port.name.clone(), is_gone: false })
    }

    /// The next frame that the node sends: its length; none if there is none now.
    pub fn read(&mut self, buffer: &mut [u8]) -> Option<usize> {
        match self.device.read(buffer) {
            Ok(nbytes) => Some(nbytes),
            Err(error) if error.raw_os_error() == Some(libc::EBADFD) => {
                eprintln!("the device {:?} of port {:?} was removed", self.name, self.port);
                self.is_gone = true;
                None
            }
            Err(_) => None,
        }
    }

    /// Hand a frame over to the node: whether it was taken.
    pub fn write(&mut self, data: &[u8]) -> bool {
        self.device.write(data).is_ok()
    }

    /// Whether somebody has removed the device.
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Frames that the node has sent and the device had no room for.
    pub fn overflows(&self) -> u64 {
        let mut text = vec![0; STATISTICS_NBYTES];
        let nbytes = self.statistics.read_at(&mut text, 0).unwrap_or(0);
        not_sent(&String::from_utf8_lossy(&text[..nbytes]), &self.name).unwrap_or(0)
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

fn not_sent(table: &str, device: &str) -> Option<u64> {
    let lines = table.lines().filter_map(|line| line.split_once(':'));
    let (_, numbers) = lines.into_iter().find(|(name, _)| name.trim() == device)?;
    numbers.split_whitespace().nth(NOT_SENT)?.parse().ok()
}

fn create(device: &File, name: &str, mode: Mode) -> io::Result<()> {
    let mut flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_TUN_EXCL;
    if mode == Mode::Gso {
        flags |= libc::IFF_VNET_HDR;
    }
    let mut request = request_for(name);
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the device reads a whole `ifreq`, which outlives the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
    if mode == Mode::Exact {
        return Ok(());
    }
    let nbytes = HEADER as libc::c_int;
    // SAFETY: the device reads an `int`, which outlives the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const nbytes) })?;
    let offload = libc::c_ulong::from(libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6);
    // SAFETY: the argument is a number.
    check(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETOFFLOAD, offload) })
}

fn socket() -> io::Result<File> {
    // SAFETY: the call takes numbers alone.
    let made = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    check(made)?;
    // SAFETY: the descriptor was made above, and nobody else has it.
    Ok(unsafe { File::from_raw_fd(made) })
}

fn set_address(socket: &File, name: &str, address: Address) -> io::Result<()> {
    // SAFETY: the structure is one of numbers, all of which may be zero.
    let mut given: libc::sockaddr = unsafe { std::mem::zeroed() };
    given.sa_family = libc::ARPHRD_ETHER;
    for (to, from) in given.sa_data.iter_mut().zip(address) {
        *to = from as libc::c_char;
    }
    let mut request = request_for(name);
    request.ifr_ifru.ifru_hwaddr = given;
    // SAFETY: the socket reads a whole `ifreq`, which outlives the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFHWADDR, &raw const request) })
}

fn set_room(socket: &File, name: &str) -> io::Result<()> {
    let mut request = request_for(name);
    request.ifr_ifru.ifru_metric = ROOM;
    // SAFETY: the socket reads a whole `ifreq`, of which the number is at this place.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFTXQLEN, &raw const request) })
}

/// A request about a device, whose name is short enough.
fn request_for(name: &str) -> libc::ifreq {
    // SAFETY: the structure is one of numbers and pointers, all of which may be zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo
    lo:       0       0    0    0    0     0          0         0        0       0    0    1    0
  eth0:     100       1    0    2    0     0          0         0      300       3    4   55    6
";

    #[test]
    fn frames_without_room_are_in_the_namespaces_list() {
        assert_eq!(not_sent(TABLE, "eth0"), Some(55));
        assert_eq!(not_sent(TABLE, "lo"), Some(1));
        assert_eq!(not_sent(TABLE, "eth"), None);
        assert_eq!(not_sent("", "eth0"), None);
    }
}
