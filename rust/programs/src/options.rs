//! Values of options, as the package writes them.

use std::str::FromStr;

/// A number.
pub fn number<T: FromStr>(option: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{option} takes a number, not {value:?}"))
}

/// One of two words.
pub fn yes_or_no(option: &str, value: &str) -> Result<bool, String> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("{option} takes yes or no, not {value:?}")),
    }
}
