//! What the program is called with.

use std::path::PathBuf;
use std::time::Duration;

use hyperslab_programs::options::{number, yes_or_no};

use crate::stripes::Stripes;
use crate::tier::Settings;

/// What `--help` says.
pub const USAGE: &str = "\
Usage: hyperslab-tierfs BACKING MOUNTPOINT [OPTION VALUE]...

Shows the directory BACKING at MOUNTPOINT, as slow as the options say, until it is unmounted. Prints
\"ready\" when it is mounted. Made to be started by `hyperslab tiers emulate`.

  --read-rate BYTES      bytes that each target reads in a second
  --write-rate BYTES     bytes that each target writes in a second; both share the target
  --latency NS           what every request takes longer, however many there are
  --metadata-cost NS     what an operation on names takes, one at a time
  --write-back BYTES     bytes that are answered before they are on their way; without: write-through
  --fast BYTES           bytes of a fast medium that is filled before the slow one
  --targets N            targets that there are
  --stripe-count N       targets over which a file is laid
  --stripe-size BYTES    bytes on one target before the next one follows
  --keep-cache yes|no    whether data stay in memory when a file is opened again
  --attribute-ttl NS     how long the kernel takes names and attributes for granted
  --allow-other yes|no   whether users may enter whom the program does not run as
  --lifeline yes|no      end when the standard input is closed
  --name NAME            source of the mount, as mount and df show it
  --type NAME            type of the mount, which is fuse.NAME
  --control PATH         socket that answers with the counters, which are in PATH.end (in place of
                         its suffix) at the end
";

/// What the program is to do.
#[derive(Debug, PartialEq)]
pub struct Arguments {
    /// Directory in which everything is.
    pub backing: PathBuf,
    /// Directory at which it is shown.
    pub mountpoint: PathBuf,
    /// What the tier is to be like.
    pub settings: Settings,
    /// Whether other users may enter.
    pub allow_other: bool,
    /// Whether the program ends when its standard input is closed.
    pub has_lifeline: bool,
    /// Source of the mount.
    pub name: String,
    /// Type of the mount, after `fuse.`.
    pub subtype: String,
    /// Socket that answers with the counters, beside which they are left at the end.
    pub control: Option<PathBuf>,
}

/// The arguments as they were given, without the program's name; a sentence if they are wrong.
pub fn parse(given: impl IntoIterator<Item = String>) -> Result<Arguments, String> {
    let mut given = given.into_iter();
    let mut next = |what: &str| given.next().ok_or_else(|| format!("{what} is missing"));
    let mut arguments = Arguments {
        backing: next("BACKING")?.into(),
        mountpoint: next("MOUNTPOINT")?.into(),
        settings: Settings::default(),
        allow_other: false,
        has_lifeline: false,
        name: "hyperslab".into(),
        subtype: "hyperslab".into(),
        control: None,
    };
    while let Some(option) = given.next() {
        let value = given.next().ok_or_else(|| format!("{option} needs a value"))?;
        set(&mut arguments, &option, &value)?;
    }
    check(&arguments.settings)?;
    Ok(arguments)
}

fn set(arguments: &mut Arguments, option: &str, value: &str) -> Result<(), String> {
    let settings = &mut arguments.settings;
    let stripes = &mut settings.stripes;
    match option {
        "--read-rate" => settings.read_rate = Some(number(option, value)?),
        "--write-rate" => settings.write_rate = Some(number(option, value)?),
        "--latency" => settings.latency = number(option, value)?,
        "--metadata-cost" => settings.metadata_cost = number(option, value)?,
        "--write-back" => settings.write_back = Some(number(option, value)?),
        "--fast" => settings.fast = Some(number(option, value)?),
        "--targets" => stripes.targets = number(option, value)?,
        "--stripe-count" => stripes.count = number(option, value)?,
        "--stripe-size" => stripes.nbytes = number(option, value)?,
        "--keep-cache" => settings.keep_cache = yes_or_no(option, value)?,
        "--attribute-ttl" => {
            settings.attribute_ttl = Duration::from_nanos(number(option, value)?);
        }
        "--allow-other" => arguments.allow_other = yes_or_no(option, value)?,
        "--lifeline" => arguments.has_lifeline = yes_or_no(option, value)?,
        "--name" => arguments.name = value.into(),
        "--type" => arguments.subtype = value.into(),
        "--control" => arguments.control = Some(value.into()),
        _ => return Err(format!("there is no option {option}")),
    }
    Ok(())
}

fn check(settings: &Settings) -> Result<(), String> {
    let Stripes { nbytes, count, targets } = settings.stripes;
    let is_rate = |rate: Option<f64>| rate.is_none_or(|rate| rate.is_finite() && rate >= 1.0);
    if !is_rate(settings.read_rate) || !is_rate(settings.write_rate) {
        return Err("a rate is at least one byte in a second".into());
    }
    if nbytes == 0 || count == 0 {
        return Err("a stripe has at least one byte, and a file at least one target".into());
    }
    if count > targets {
        return Err(format!("a file cannot be laid over {count} targets where {targets} are"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, String> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn options_are_settings() {
        let line =
            "/b /m --read-rate 1e6 --targets 4 --stripe-count 2 --write-back 64 --keep-cache yes";
        let arguments = parsed(line).unwrap();
        assert_eq!(arguments.subtype, "hyperslab");
        let settings = arguments.settings;
        assert_eq!(arguments.backing, PathBuf::from("/b"));
        assert_eq!(settings.read_rate, Some(1e6));
        assert_eq!(settings.write_rate, None);
        assert_eq!(settings.stripes, Stripes { nbytes: 1 << 20, count: 2, targets: 4 });
        assert_eq!(settings.write_back, Some(64));
        assert!(settings.keep_cache);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong = |line: &str| parsed(line).unwrap_err();
        assert_eq!(wrong("/b"), "MOUNTPOINT is missing");
        assert_eq!(wrong("/b /m --speed 3"), "there is no option --speed");
        assert_eq!(wrong("/b /m --latency"), "--latency needs a value");
        assert_eq!(wrong("/b /m --latency soon"), "--latency takes a number, not \"soon\"");
        assert!(wrong("/b /m --read-rate 0").contains("at least one byte"));
        assert!(wrong("/b /m --read-rate inf").contains("at least one byte"));
        assert!(wrong("/b /m --stripe-count 2").contains("laid over 2 targets where 1"));
        assert!(wrong("/b /m --stripe-size 0").contains("at least one byte"));
    }
}
