//! The parent's side of one worker: start it, ask it, and kill it with all its children when it
//! dies, hangs or talks nonsense.

use super::{PROTOCOL, Reply, Request};
use crate::backend::posix;
use serde::{Serialize, de::DeserializeOwned};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest line accepted from a worker.
const LINE_LIMIT: u64 = 64 << 20;
/// How much of a worker's standard error is kept for the reason of its death.
const TAIL_LIMIT: usize = 2000;

/// The program to start as a worker.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkerCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

impl WorkerCommand {
    /// `<program> worker <kind>`, with the path of a `daylight` binary.
    pub fn daylight(program: impl Into<PathBuf>, kind: &str) -> WorkerCommand {
        WorkerCommand { program: program.into(), args: vec!["worker".into(), kind.into()] }
    }
}

/// Why a worker was given up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WorkerFault {
    /// It could not be started.
    Start(String),
    /// It did not answer in time.
    TimedOut(Duration),
    /// It died; how, and the end of what it wrote to standard error.
    Died(String),
    /// It wrote something that is not a reply.
    Garbage(String),
}

impl std::fmt::Display for WorkerFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WorkerFault::Start(why) => write!(f, "the worker could not be started: {why}"),
            WorkerFault::TimedOut(limit) => write!(f, "no answer within {:.1} s", limit.as_secs_f64()),
            WorkerFault::Died(how) => write!(f, "the worker process {how}"),
            WorkerFault::Garbage(what) => write!(f, "the worker wrote something that is no reply: {what}"),
        }
    }
}

/// A running worker.
pub struct WorkerProcess {
    child: Child,
    input: ChildStdin,
    lines: mpsc::Receiver<Vec<u8>>,
    errors: Arc<Mutex<VecDeque<u8>>>,
    /// Ends when the worker's error output does.
    error_reader: JoinHandle<()>,
    next: u64,
}

impl WorkerProcess {
    /// Starts a worker in a process group of its own.
    ///
    /// # Errors
    /// [`WorkerFault::Start`].
    pub fn start(command: &WorkerCommand) -> Result<WorkerProcess, WorkerFault> {
        let start = |e| WorkerFault::Start(format!("{}: {e}", command.program.display()));
        let mut child = Command::new(&command.program)
            .args(&command.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(start)?;
        let (input, output, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(stderr)) = (input, output, stderr) else {
            return Err(WorkerFault::Start("its pipes are missing".to_string()));
        };
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || read_lines(output, &send));
        let errors = Arc::new(Mutex::new(VecDeque::new()));
        let tail = errors.clone();
        let error_reader = std::thread::spawn(move || read_tail(stderr, &tail));
        Ok(WorkerProcess { child, input, lines, errors, error_reader, next: 0 })
    }

    /// Sends a request and waits for its reply. After a fault the worker is of no more use.
    ///
    /// # Errors
    /// [`WorkerFault`]; the process and its children are dead then.
    pub fn ask<Q: Serialize, R: DeserializeOwned>(&mut self, body: &Q, limit: Duration) -> Result<R, WorkerFault> {
        let id = self.next;
        self.next += 1;
        let asked = self.send(&Request { v: PROTOCOL, id, body }).and_then(|()| self.receive(id, limit));
        asked.inspect_err(|_| self.kill())
    }

    fn send<Q: Serialize>(&mut self, request: &Request<Q>) -> Result<(), WorkerFault> {
        let line = serde_json::to_vec(request).map_err(|e| WorkerFault::Garbage(format!("unwritable request: {e}")))?;
        let written = self.input.write_all(&line).and_then(|()| self.input.write_all(b"\n"));
        written.and_then(|()| self.input.flush()).map_err(|_| self.death())
    }

    fn receive<R: DeserializeOwned>(&mut self, id: u64, limit: Duration) -> Result<R, WorkerFault> {
        let line = match self.lines.recv_timeout(limit) {
            Ok(line) => line,
            Err(mpsc::RecvTimeoutError::Timeout) => return Err(WorkerFault::TimedOut(limit)),
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err(self.death()),
        };
        let garbage = || WorkerFault::Garbage(String::from_utf8_lossy(&line).chars().take(200).collect());
        let reply: Reply<R> = serde_json::from_slice(&line).map_err(|_| garbage())?;
        if reply.v == PROTOCOL && reply.id == id { Ok(reply.body) } else { Err(garbage()) }
    }

    /// How the process ended, once its output has: waits a moment for the status and for its last words,
    /// which a process that it started may hold open.
    fn death(&mut self) -> WorkerFault {
        let mut status = None;
        for _ in 0..100 {
            status = self.child.try_wait().ok().flatten();
            if status.is_some() && self.error_reader.is_finished() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let how = status.map_or("closed its output".to_string(), describe);
        let tail: Vec<u8> = self.errors.lock().map(|t| t.iter().copied().collect()).unwrap_or_default();
        let tail = String::from_utf8_lossy(&tail);
        let last = tail.trim();
        WorkerFault::Died(if last.is_empty() { how } else { format!("{how}: {last}") })
    }

    fn kill(&mut self) {
        posix::kill_group(self.child.id());
        // The wait can't fail for a child of ours, and a killed process ends.
        let _ = self.child.wait();
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

fn describe(status: ExitStatus) -> String {
    let Some(signal) = status.signal() else {
        return format!("ended with {}", status.code().map_or("no status".to_string(), |c| format!("exit code {c}")));
    };
    let names = [(4, "SIGILL"), (6, "SIGABRT"), (7, "SIGBUS"), (8, "SIGFPE"), (9, "SIGKILL"), (11, "SIGSEGV")];
    let name = names.iter().find(|n| n.0 == signal).map_or(format!("signal {signal}"), |n| n.1.to_string());
    format!("was killed by {name}")
}

fn read_lines(output: impl Read, lines: &mpsc::Sender<Vec<u8>>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        match output.by_ref().take(LINE_LIMIT).read_until(b'\n', &mut line) {
            Ok(n) if n > 0 && lines.send(line).is_ok() => {}
            _ => return,
        }
    }
}

fn read_tail(mut stderr: impl Read, tail: &Mutex<VecDeque<u8>>) {
    let mut chunk = [0u8; 1024];
    while let Ok(n) = stderr.read(&mut chunk) {
        let Ok(mut tail) = tail.lock() else { return };
        tail.extend(&chunk[..n]);
        let excess = tail.len().saturating_sub(TAIL_LIMIT);
        tail.drain(..excess);
        if n == 0 {
            return;
        }
    }
}
