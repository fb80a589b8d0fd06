//! Which calls are looked at, and where their arguments say what file they are about.

use std::collections::HashMap;

use syscalls::Sysno;

/// What a call is looked at for: `struct plan` of calls.bpf.c.
pub type Plan = [u8; 8];

const BY_DESCRIPTOR: u8 = 1;
const BY_SECOND: u8 = 2;
const BY_NAME: u8 = 4;
const IN_FOLDER: u8 = 8;
const OPENS: u8 = 16;
const OF_LENGTH: u8 = 32;
const WITHOUT_FILE: u8 = 64;
const WAYS: usize = 0;
const DESCRIPTOR: usize = 1;
const SECOND: usize = 2;
const NAME: usize = 3;
const LENGTH: usize = 4;
const ARGUMENTS: u8 = 6;

/// Calls of this machine's kernel that are looked at.
pub struct Plans {
    /// Plans by the numbers of calls.
    pub by_number: Vec<(u32, Plan)>,
    places: HashMap<u16, u16>,
}

impl Plans {
    /// No call at all.
    pub fn none() -> Self {
        Self { by_number: Vec::new(), places: HashMap::new() }
    }

    /// Calls of a list, but those that this kind of processor does not have.
    pub fn of(list: &str) -> Result<Self, String> {
        let mut plans = Self::none();
        for (place, one) in list.split(',').enumerate() {
            let (name, ways) = one.split_once('=').ok_or(format!("{one} has no ways"))?;
            let plan = plan_of(ways)?;
            let Ok(number) = name.parse::<Sysno>() else {
                continue;
            };
            let number = number.id() as u16;
            plans.by_number.push((number.into(), plan));
            plans.places.insert(number, place as u16);
        }
        Ok(plans)
    }

    /// Place of a call in the list.
    pub fn place(&self, number: u16) -> Option<u16> {
        self.places.get(&number).copied()
    }
}

fn plan_of(ways: &str) -> Result<Plan, String> {
    let mut plan = Plan::default();
    for way in ways.split('+') {
        let (word, argument) = way.split_once(':').unwrap_or((way, "0"));
        let argument: u8 = argument.parse().map_err(|_| format!("{way} names no argument"))?;
        if argument >= ARGUMENTS {
            return Err(format!("{way}: calls have {ARGUMENTS} arguments"));
        }
        add(&mut plan, word, argument)?;
    }
    Ok(plan)
}

fn add(plan: &mut Plan, word: &str, argument: u8) -> Result<(), String> {
    let (ways, place) = match word {
        "fd" => (BY_DESCRIPTOR, DESCRIPTOR),
        "fd2" => (BY_SECOND, SECOND),
        "name" => (BY_NAME, NAME),
        "length" => (OF_LENGTH, LENGTH),
        "at" => {
            plan[WAYS] |= BY_NAME | IN_FOLDER;
            plan[DESCRIPTOR] = argument;
            plan[NAME] = argument + 1;
            return Ok(());
        }
        "opens" => {
            plan[WAYS] |= OPENS;
            return Ok(());
        }
        "alone" => {
            plan[WAYS] |= WITHOUT_FILE;
            return Ok(());
        }
        _ => return Err(format!("there is no way {word}")),
    };
    plan[WAYS] |= ways;
    plan[place] = argument;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_by_their_names() {
        let plans = Plans::of("read=fd:0,no_such_call=fd:0,openat=at:0+opens").unwrap();
        let [(read, plan), (openat, opening)] = plans.by_number[..] else {
            panic!("two of them are there");
        };
        assert_eq!((plans.place(read as u16), plans.place(openat as u16)), (Some(0), Some(2)));
        assert_eq!(plan, [BY_DESCRIPTOR, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(opening, [BY_NAME | IN_FOLDER | OPENS, 0, 0, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn each_word_has_its_argument() {
        let plan = plan_of("fd:4+length:1").unwrap();
        assert_eq!(plan, [BY_DESCRIPTOR | OF_LENGTH, 4, 0, 0, 1, 0, 0, 0]);
        assert!(plan_of("fd:6").unwrap_err().contains("6 arguments"));
        assert!(plan_of("socket:0").unwrap_err().contains("no way socket"));
    }
}
