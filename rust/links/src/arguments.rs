//! What the program is called with.

use std::path::PathBuf;

/// What `--help` says.
pub const USAGE: &str = "\
Usage: hyperslab-links CONFIG.json --control SOCKET

Makes a TAP device in each network namespace that CONFIG.json names, and carries frames between them
as slow, distant or lossy links would. Prints \"ready\" when all devices are there. Ends with its
standard input, or by SIGTERM; the devices go with it. Made to be started by `hyperslab netlab`.

  --control SOCKET       socket that answers requests, each a line of JSON:
                         {\"get\": true}, or {\"set\": {\"PORT\": {\"up\": LINK, \"down\": LINK}}}
";

/// What the program is to do.
#[derive(Debug, PartialEq)]
pub struct Arguments {
    /// File that names the ports.
    pub config: PathBuf,
    /// Socket that answers requests.
    pub control: PathBuf,
}

/// The arguments as they were given, without the program's name; a sentence if they are wrong.
pub fn parse(given: impl IntoIterator<Item = String>) -> Result<Arguments, String> {
    let given: Vec<String> = given.into_iter().collect();
    match given.as_slice() {
        [config, option, control] if option == "--control" => {
            Ok(Arguments { config: config.into(), control: control.into() })
        }
        _ => Err("CONFIG.json --control SOCKET is expected: see --help".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, String> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn both_files_are_named() {
        let expected = Arguments { config: "a.json".into(), control: "b.sock".into() };
        assert_eq!(parsed("a.json --control b.sock"), Ok(expected));
    }

    #[test]
    fn all_else_is_wrong() {
        for line in ["", "a.json", "a.json --control", "a.json --socket b", "a --control b c"] {
            assert!(parsed(line).unwrap_err().contains("see --help"), "{line}");
        }
    }
}
