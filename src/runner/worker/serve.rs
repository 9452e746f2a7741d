//! The worker's side: reads requests, answers them one by one, ends when its parent does.

use super::process::SCRATCH;
use super::{PROTOCOL, Reply, Request};
use crate::runner::posix;
use serde::{Serialize, de::DeserializeOwned};
use std::fs::File;
use std::io::{BufRead, Write};
use std::sync::mpsc;

/// Answers each request with `handle` until standard input ends. The first request is the set-up.
///
/// # Errors
/// A sentence, when the pipe breaks or the peer speaks another protocol.
pub fn serve<Q, R>(mut handle: impl FnMut(Q) -> R) -> Result<(), String>
where
    Q: DeserializeOwned + Send + 'static,
    R: Serialize,
{
    let pipe = posix::take_stdout().map_err(|e| format!("the worker's output can't be set up: {e}"))?;
    let mut out = File::from(pipe);
    let (send, requests) = mpsc::channel();
    std::thread::spawn(move || read(&send));
    while let Ok(request) = requests.recv() {
        let request: Request<Q> = request?;
        let reply = Reply { v: PROTOCOL, id: request.id, body: handle(request.body) };
        let mut line = serde_json::to_vec(&reply).map_err(|e| format!("a reply can't be written as JSON: {e}"))?;
        line.push(b'\n');
        out.write_all(&line).map_err(|e| format!("the worker's parent is gone: {e}"))?;
    }
    Ok(())
}

/// Passes requests on. When the parent closes the pipe or dies, the process ends at once, even in
/// the middle of a kernel that never returns.
fn read<Q: DeserializeOwned>(requests: &mpsc::Sender<Result<Request<Q>, String>>) {
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        match input.read_until(b'\n', &mut line) {
            Ok(n) if n > 0 && line.ends_with(b"\n") => {
                if requests.send(parse(&line)).is_err() {
                    return;
                }
            }
            Ok(_) | Err(_) => leave(),
        }
    }
}

/// Ends the process, as its parent is gone and cannot clean up after it.
fn leave() -> ! {
    if let Some(scratch) = std::env::var_os(SCRATCH) {
        // Nobody is left who could be told of an error.
        let _ = std::fs::remove_dir_all(scratch);
    }
    posix::exit_now()
}

fn parse<Q: DeserializeOwned>(line: &[u8]) -> Result<Request<Q>, String> {
    let request: Request<serde_json::Value> =
        serde_json::from_slice(line).map_err(|e| format!("a request is not JSON: {e}"))?;
    if request.v != PROTOCOL {
        return Err(format!("the parent speaks protocol {}, this worker {PROTOCOL}: use one daylight", request.v));
    }
    let body = serde_json::from_value(request.body).map_err(|e| format!("a request is malformed: {e}"))?;
    Ok(Request { v: request.v, id: request.id, body })
}
