//! Calls of a command that have to do with files, seen by a program in the kernel (eBPF).

mod arguments;
mod command;
mod kernel;
mod paths;
mod plans;
mod record;
mod rows;

use std::process::ExitCode;
use std::time::Duration;

use hyperslab_programs::processor::go_first_alone;

use crate::arguments::{Arguments, Counting};
use crate::command::Command;
use crate::kernel::Kernel;
use crate::plans::Plans;
use crate::record::Seen;
use crate::rows::Rows;

/// How long calls wait in the kernel where few come.
const PERIOD: Duration = Duration::from_millis(5);

fn main() -> ExitCode {
    let given: Vec<_> = std::env::args_os().skip(1).collect();
    if given.first().is_some_and(|first| first == "--help") {
        print!("{}", arguments::USAGE);
        return ExitCode::SUCCESS;
    }
    go_first_alone(1);
    let done = arguments::parse(given).and_then(|arguments| match arguments {
        Arguments::Try => Kernel::start(&Plans::none(), None).map(|_| 0),
        Arguments::Count(counting) => count(&counting),
    });
    match done {
        Ok(status) => ExitCode::from(status),
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Run the command to its end, and that of all it has started; its exit status as a shell has it.
fn count(counting: &Counting) -> Result<u8, String> {
    let plans = Plans::of(&counting.calls)?;
    let mut rows = Rows::create(&counting.into).map_err(|error| error.to_string())?;
    let mut kernel = Kernel::start(&plans, counting.ring_nbytes)?;
    let mut command = Command::start(&counting.command)?;
    let mut failure = None;
    loop {
        // What has ended by now has left all its calls in the kernel, which are taken then.
        let is_over = command.is_over()?;
        kernel.take(|bytes| {
            let added = Seen::of(bytes).map_or(Ok(()), |seen| rows.add(&seen, &plans));
            failure = failure.take().or(added.err());
        });
        if is_over {
            break;
        }
        kernel.wait(PERIOD)?;
    }
    let faults = kernel.faults()?;
    if let Some(error) = failure {
        return Err(format!("calls could not be written down: {error}"));
    }
    rows.finish(&faults).map_err(|error| error.to_string())?;
    Ok(command.status)
}
