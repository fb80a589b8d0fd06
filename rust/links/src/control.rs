//! Requests about links, for whoever connects to a socket.
//!
//! Threads of their own read and answer: who is slow to ask keeps no packet waiting. The thread that
//! carries packets is woken up for each request, and comes to it between two packets.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use nix::sys::eventfd::EventFd;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::switch::Change;

/// The longest request, bytes.
const LONGEST: u64 = 1 << 20;

/// What is asked for.
#[derive(Debug, PartialEq)]
pub enum Request {
    /// All that was counted.
    Get,
    /// Other links.
    Set(BTreeMap<String, Change>),
}

/// A request, and who waits for its answer.
pub struct Asked {
    /// What is asked for.
    pub request: Request,
    /// Takes the answer.
    pub answer: Sender<Value>,
}

/// Where the requests come in.
pub struct Requests {
    /// The requests.
    pub waiting: Receiver<Asked>,
    /// Readable when there are some.
    pub event: Arc<EventFd>,
}

#[derive(Clone)]
struct Desk {
    asked: Sender<Asked>,
    event: Arc<EventFd>,
}

/// Listen at a path, from threads that end with the program.
pub fn serve(path: &Path) -> io::Result<Requests> {
    let listener = UnixListener::bind(path)?;
    let event = Arc::new(EventFd::new()?);
    let (asked, waiting) = mpsc::channel();
    let desk = Desk { asked, event: event.clone() };
    let run = move || {
        for stream in listener.incoming().flatten() {
            let desk = desk.clone();
            // Without another thread the stream is closed, which tells who has connected.
            let _ = std::thread::Builder::new().name("control".into()).spawn(move || {
                // Who goes away again wants no answer.
                let _ = desk.answer_all(&stream);
            });
        }
    };
    std::thread::Builder::new().name("listener".into()).spawn(run)?;
    Ok(Requests { waiting, event })
}

impl Desk {
    fn answer_all(&self, mut stream: &UnixStream) -> io::Result<()> {
        let mut lines = BufReader::new(stream);
        loop {
            let mut line = String::new();
            (&mut lines).take(LONGEST).read_line(&mut line)?;
            if line.is_empty() {
                return Ok(());
            }
            let answer = parse(&line).and_then(|request| self.ask(request));
            let answer = answer.unwrap_or_else(|why| json!({"error": why}));
            stream.write_all(format!("{answer}\n").as_bytes())?;
        }
    }

    fn ask(&self, request: Request) -> Result<Value, String> {
        self.hand_in(request).ok_or_else(|| "the program is ending".into())
    }

    /// The answer to a request; none if nobody is there any more to give one.
    fn hand_in(&self, request: Request) -> Option<Value> {
        let (answer, told) = mpsc::channel();
        self.asked.send(Asked { request, answer }).ok()?;
        self.event.write(1).ok()?;
        told.recv().ok()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    get: Option<bool>,
    set: Option<BTreeMap<String, Change>>,
}

fn parse(line: &str) -> Result<Request, String> {
    let line: Line = serde_json::from_str(line).map_err(|error| format!("no request: {error}"))?;
    match (line.get, line.set) {
        (Some(true), None) => Ok(Request::Get),
        (None, Some(changes)) => Ok(Request::Set(changes)),
        _ => Err("a request is {\"get\": true} or {\"set\": {PORT: {\"up\": LINK}}}".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_request() {
        assert_eq!(parse("{\"get\": true}\n"), Ok(Request::Get));
        let line = r#"{"set": {"w1": {"up": {"delay_ns": 7}}}}"#;
        let Ok(Request::Set(changes)) = parse(line) else { panic!("{line}") };
        let up = changes["w1"].up.as_ref().unwrap();
        assert_eq!((up.delay_ns, &changes["w1"].down), (7, &None));
    }

    #[test]
    fn what_is_none_is_said() {
        for line in ["{}", r#"{"get": false}"#, r#"{"get": true, "set": {}}"#] {
            assert!(parse(line).unwrap_err().starts_with("a request is"), "{line}");
        }
        for line in ["", "get", r#"{"put": 1}"#, r#"{"set": {"w1": {"speed": 1}}}"#, "[[[["] {
            assert!(parse(line).unwrap_err().starts_with("no request: "), "{line}");
        }
    }

    #[test]
    fn who_asks_is_answered_line_by_line() {
        let folder = std::env::temp_dir().join(format!("hyperslab-links-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("socket");
        let requests = serve(&path).unwrap();
        let stream = UnixStream::connect(&path).unwrap();
        (&stream).write_all(b"nonsense\n{\"get\": true}\n").unwrap();
        let asked = requests.waiting.recv().unwrap();
        assert_eq!(asked.request, Request::Get);
        asked.answer.send(json!({"ok": true})).unwrap();
        let mut lines = BufReader::new(&stream).lines();
        assert!(lines.next().unwrap().unwrap().starts_with("{\"error\":\"no request: "));
        assert_eq!(lines.next().unwrap().unwrap(), "{\"ok\":true}");
        assert_eq!(requests.event.read().unwrap(), 1);
        drop(requests);
        (&stream).write_all(b"{\"get\": true}\n").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "{\"error\":\"the program is ending\"}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
