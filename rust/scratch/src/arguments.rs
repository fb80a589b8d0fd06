//! What the program is called with.

use std::path::PathBuf;

use hyperslab_programs::options::{number, yes_or_no};

use crate::extents::BLOCK;

/// What `--help` says.
pub const USAGE: &str = "\
Usage: hyperslab-scratch mount DIR NBYTES MOUNTPOINT [OPTION VALUE]...
       hyperslab-scratch enter PID COMMAND...

mount: an empty file system of NBYTES at MOUNTPOINT, until it is unmounted. Its contents lie in one
large file in DIR, which has no name there; all else is in memory, and gone with the program. Prints
\"ready\" when it is mounted. Made to be started by `hyperslab scratch`.

  --fallback DIR         where files go on when the file in DIR is full
  --fallback-nbytes N    how much may be written there
  --name NAME            source of the mount, as mount and df show it
  --namespace yes|no     mount it in a user namespace, for which nobody needs root
  --beside PID           ... in that of this process, if it lets others in; may be given several times
  --lifeline yes|no      end when the standard input is closed
  --attributes yes|no    keep extended attributes, for which the kernel asks before it writes

enter: run a command where the mounts of a namespace are seen that such a program has made.
";

/// What is to be done.
#[derive(Debug, PartialEq)]
pub enum Arguments {
    /// A file system is to be mounted.
    Mount(Mounting),
    /// A command is to be run beside the process of this number.
    Enter {
        /// The process, in whose namespaces.
        pid: u32,
        /// The command.
        command: Vec<String>,
    },
}

/// A directory, and the blocks that may be written there.
#[derive(Debug, PartialEq)]
pub struct Place {
    /// The directory.
    pub directory: PathBuf,
    /// How many blocks.
    pub blocks: u64,
}

/// The file system that is wanted.
#[derive(Debug, PartialEq)]
pub struct Mounting {
    /// Where its contents lie, first and then.
    pub places: Vec<Place>,
    /// Directory where it is to be.
    pub mountpoint: PathBuf,
    /// Source of the mount.
    pub name: String,
    /// Whether it is mounted in namespaces of its own.
    pub in_namespace: bool,
    /// Processes in whose user namespace it is mounted, the first that lets others in.
    pub beside: Vec<u32>,
    /// Whether it ends with its standard input.
    pub has_lifeline: bool,
    /// Whether files have extended attributes.
    pub has_extended: bool,
}

/// The arguments as they were given, without the program's name; a sentence if they are wrong.
pub fn parse(given: Vec<String>) -> Result<Arguments, String> {
    let mut given = given.into_iter();
    match given.next().as_deref() {
        Some("mount") => parse_mount(given).map(Arguments::Mount),
        Some("enter") => parse_enter(given),
        Some(other) => Err(format!("there is no way to {other}: give mount or enter")),
        None => Err("give mount or enter; --help says more".into()),
    }
}

fn parse_enter(mut given: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let pid = number("PID", &given.next().ok_or("PID is missing")?)?;
    let command: Vec<String> = given.collect();
    if command.is_empty() {
        return Err("COMMAND is missing".into());
    }
    Ok(Arguments::Enter { pid, command })
}

fn parse_mount(mut given: impl Iterator<Item = String>) -> Result<Mounting, String> {
    let mut next = |what: &str| given.next().ok_or_else(|| format!("{what} is missing"));
    let first =
        Place { directory: next("DIR")?.into(), blocks: blocks("NBYTES", &next("NBYTES")?)? };
    let mut mounting = Mounting {
        places: vec![first],
        mountpoint: next("MOUNTPOINT")?.into(),
        name: "hyperslab-scratch".into(),
        in_namespace: false,
        beside: Vec::new(),
        has_lifeline: false,
        has_extended: false,
    };
    let mut fallback = Place { directory: PathBuf::new(), blocks: 0 };
    while let Some(option) = given.next() {
        let value = given.next().ok_or_else(|| format!("{option} needs a value"))?;
        match option.as_str() {
            "--fallback" => fallback.directory = value.into(),
            "--fallback-nbytes" => fallback.blocks = blocks(&option, &value)?,
            "--name" => mounting.name = value,
            "--namespace" => mounting.in_namespace = yes_or_no(&option, &value)?,
            "--beside" => mounting.beside.push(number(&option, &value)?),
            "--lifeline" => mounting.has_lifeline = yes_or_no(&option, &value)?,
            "--attributes" => mounting.has_extended = yes_or_no(&option, &value)?,
            _ => return Err(format!("there is no option {option}")),
        }
    }
    if fallback.directory.as_os_str().is_empty() != (fallback.blocks == 0) {
        return Err("--fallback and --fallback-nbytes go together".into());
    }
    if fallback.blocks > 0 {
        mounting.places.push(fallback);
    }
    Ok(mounting)
}

/// Whole blocks of so many bytes.
fn blocks(option: &str, value: &str) -> Result<u64, String> {
    match number::<u64>(option, value)? / BLOCK {
        0 => Err(format!("{option} {value}: a file takes {BLOCK} bytes at least")),
        blocks => Ok(blocks),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, String> {
        parse(line.split_whitespace().map(String::from).collect())
    }

    #[test]
    fn options_say_what_is_mounted() {
        let line = "mount /b 10000 /m --namespace yes --beside 7 --beside 8 \
                    --fallback /f --fallback-nbytes 4096";
        let Ok(Arguments::Mount(mounting)) = parsed(line) else { panic!("{:?}", parsed(line)) };
        let places: Vec<u64> = mounting.places.iter().map(|place| place.blocks).collect();
        assert_eq!(places, [2, 1]);
        assert!(mounting.in_namespace);
        assert_eq!(mounting.beside, [7, 8]);
        assert!(!mounting.has_extended);
    }

    #[test]
    fn a_command_is_taken_as_it_is() {
        let expected = ["ls", "--help"].map(String::from).to_vec();
        assert_eq!(
            parsed("enter 12 ls --help"),
            Ok(Arguments::Enter { pid: 12, command: expected })
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong = |line: &str| parsed(line).unwrap_err();
        assert_eq!(wrong("mount /b 4096"), "MOUNTPOINT is missing");
        assert_eq!(wrong("mount /b 5 /m"), "NBYTES 5: a file takes 4096 bytes at least");
        assert_eq!(wrong("mount /b 4096 /m --speed 3"), "there is no option --speed");
        assert_eq!(wrong("mount /b 4096 /m --name"), "--name needs a value");
        assert!(wrong("mount /b 4096 /m --fallback /f").contains("go together"));
        assert_eq!(wrong("enter 12"), "COMMAND is missing");
        assert_eq!(wrong("enter me ls"), "PID takes a number, not \"me\"");
        assert!(wrong("").contains("give mount or enter"));
    }
}
