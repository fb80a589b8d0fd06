//! What the program is called with.

use std::ffi::OsString;
use std::path::PathBuf;

use hyperslab_programs::options::number;

/// What `--help` says.
pub const USAGE: &str = "\
Usage: hyperslab-filecalls --try
       hyperslab-filecalls [--ring NBYTES] DIR CALLS COMMAND...

--try: see whether the kernel takes the program that looks at calls; says why it does not.

Otherwise run a command, and write down in DIR what it and all that it starts ask of files: `rows`,
one of 40 bytes for every call and file, `paths` and `faults`. Made to be started by
`hyperslab trace-files`, whose storage/accounting/bpf.py reads them.

CALLS is a list of name=WAYS with commas between. WAYS are words with + between: fd:N and fd2:N for
an argument that is a descriptor, name:N for a path, at:N for a directory and the path behind it,
opens for calls that return a descriptor, length:N for what is mapped, alone for calls without files.

  --ring NBYTES    memory for calls that nobody has taken yet, a power of two
";

const MISSING: &str = "give --try, or DIR, CALLS and COMMAND; --help says more";

/// What is to be done.
#[derive(Debug, PartialEq)]
pub enum Arguments {
    /// The kernel is to be asked.
    Try,
    /// A command is to be run.
    Count(Counting),
}

/// A command whose calls are wanted.
#[derive(Debug, PartialEq)]
pub struct Counting {
    /// Memory for calls that nobody has taken yet; the program has a size of its own.
    pub ring_nbytes: Option<u32>,
    /// Directory in which calls are written down.
    pub into: PathBuf,
    /// Calls, and what each is looked at for.
    pub calls: String,
    /// The command.
    pub command: Vec<OsString>,
}

/// The arguments as they were given, without the program's name; a sentence if they are wrong.
pub fn parse(given: Vec<OsString>) -> Result<Arguments, String> {
    let mut given = given.into_iter();
    let mut first = given.next().ok_or(MISSING)?;
    if first == "--try" {
        return Ok(Arguments::Try);
    }
    let mut ring_nbytes = None;
    if first == "--ring" {
        let size = given.next().ok_or("--ring takes a number")?;
        ring_nbytes = Some(number("--ring", &size.to_string_lossy())?);
        first = given.next().ok_or(MISSING)?;
    }
    let calls = given.next().ok_or("CALLS is missing")?;
    let calls = calls.into_string().map_err(|_| "CALLS is no text")?;
    let command: Vec<_> = given.collect();
    if command.is_empty() {
        return Err("COMMAND is missing".into());
    }
    Ok(Arguments::Count(Counting { ring_nbytes, into: first.into(), calls, command }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Arguments, String> {
        parse(words.iter().map(OsString::from).collect())
    }

    #[test]
    fn a_command_keeps_its_options() {
        let Arguments::Count(counting) = parsed(&["/d", "read=fd:0", "ls", "--try"]).unwrap()
        else {
            panic!("a command is given");
        };
        assert_eq!(counting.command, ["ls", "--try"]);
        assert_eq!(counting.ring_nbytes, None);
        assert_eq!(parsed(&["--try"]), Ok(Arguments::Try));
    }

    #[test]
    fn memory_is_a_number() {
        let Arguments::Count(counting) = parsed(&["--ring", "4096", "/d", "", "ls"]).unwrap()
        else {
            panic!("a command is given");
        };
        assert_eq!(counting.ring_nbytes, Some(4096));
        assert!(parsed(&["--ring", "x", "/d", "", "ls"]).unwrap_err().contains("takes a number"));
    }

    #[test]
    fn what_is_missing_is_told() {
        assert!(parsed(&[]).unwrap_err().contains("--help"));
        assert_eq!(parsed(&["/d"]), Err("CALLS is missing".into()));
        assert_eq!(parsed(&["/d", ""]), Err("COMMAND is missing".into()));
    }
}
