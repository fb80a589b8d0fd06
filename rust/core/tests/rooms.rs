//! The rooms of the core: each uses only those below it, and no modules use each other in a circle.
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Rooms from top to bottom; those on one line do not meet.
const ROOMS: [&[&str]; 4] =
    [&["chunks", "gzip", "count"], &["codec", "boxes", "io"], &["memory"], &["error"]];

/// Modules by their paths, such as `codec::chain`, and those that each of them uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

#[test]
fn rooms_use_those_below() {
    let uses = uses();
    let found: BTreeSet<&str> = uses.keys().map(|module| room(module)).collect();
    let drawn: BTreeSet<&str> = ROOMS.concat().into_iter().collect();
    assert_eq!(found, drawn);
    assert_eq!(upward(&uses), Vec::<String>::new());
    assert!(uses["codec::blosc"].contains("codec::streams"), "the modules' own imports are seen");
}

#[test]
fn no_modules_use_each_other_in_a_circle() {
    assert_eq!(circle(&uses()), None);
}

#[test]
fn what_is_wrong_is_seen() {
    let made = |pairs: &[(&str, &str)]| {
        let mut uses = Uses::new();
        for (module, used) in pairs {
            uses.entry((*module).to_string()).or_default().insert((*used).to_string());
        }
        uses
    };
    let ring =
        made(&[("codec::a", "codec::b"), ("codec::b", "codec::c"), ("codec::c", "codec::b")]);
    assert_eq!(circle(&ring), Some("codec::b".to_string()));
    let wrong =
        made(&[("io::pool", "chunks::read"), ("io::pool", "codec::chain"), ("io::pool", "error")]);
    assert_eq!(upward(&wrong), ["io::pool uses chunks::read", "io::pool uses codec::chain"]);
    let text =
        "use crate::codec::{blosc, lz4};\nuse crate::error::Fault;\ncrate::io::pool::take();";
    let seen = paths(text);
    assert_eq!(seen, ["codec::blosc", "codec::lz4", "error", "io::pool"].map(String::from).into());
}

fn room(module: &str) -> &str {
    module.split("::").next().unwrap_or(module)
}

fn floor(module: &str) -> usize {
    let is_there = |rooms: &&[&str]| rooms.contains(&room(module));
    ROOMS
        .iter()
        .position(is_there)
        .unwrap_or_else(|| panic!("{module} is in no room of this test's table"))
}

/// Uses of another room that is not below.
fn upward(uses: &Uses) -> Vec<String> {
    let mut wrong = Vec::new();
    for (module, used) in uses {
        for other in used {
            if room(module) != room(other) && floor(other) <= floor(module) {
                wrong.push(format!("{module} uses {other}"));
            }
        }
    }
    wrong
}

/// A module of a circle; those that use none but such as are in none are taken away until nothing
/// is left.
fn circle(uses: &Uses) -> Option<String> {
    let mut left = uses.clone();
    loop {
        let free: Vec<String> = left
            .iter()
            .filter(|(_, used)| used.iter().all(|other| !left.contains_key(other)))
            .map(|(module, _)| module.clone())
            .collect();
        if free.is_empty() {
            let in_use = |module: &&String| left.values().any(|used| used.contains(*module));
            return left.keys().find(in_use).cloned();
        }
        left.retain(|module, _| !free.contains(module));
    }
}

fn uses() -> Uses {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut uses = Uses::new();
    for path in files(&source) {
        let inside = path.strip_prefix(&source).expect("a file of the crate").with_extension("");
        let names: Vec<&str> = inside.iter().filter_map(|name| name.to_str()).collect();
        let module = names.join("::");
        if module == "lib" || module.ends_with("::mod") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a file of text");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        assert!(
            !code.contains("super::"),
            "{module}: other modules are named from the crate's root"
        );
        let mut used = paths(code);
        used.remove(&module);
        uses.insert(module, used);
    }
    uses
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// The modules that some code names from the root of the crate.
fn paths(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let (room, rest) = word(rest);
        let Some(inner) = rest.strip_prefix("::") else {
            found.insert(room.to_string());
            continue;
        };
        if ["error", "memory"].contains(&room) {
            found.insert(room.to_string());
        } else if let Some(list) = inner.strip_prefix('{') {
            let list = list.split('}').next().unwrap_or_default();
            found.extend(
                list.split(',')
                    .map(str::trim)
                    .filter(|name| !name.is_empty())
                    .map(|name| format!("{room}::{name}")),
            );
        } else {
            found.insert(format!("{room}::{}", word(inner).0));
        }
    }
    found
}

/// The name at the front, and what follows it.
fn word(text: &str) -> (&str, &str) {
    let end =
        text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
    text.split_at(end)
}
