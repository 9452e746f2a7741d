//! The parent's side of one worker: start it, ask it, and kill it with all its children when it
//! dies, hangs or talks nonsense.

use super::fault::{WorkerFault, describe, is_from_outside};
use super::{PROTOCOL, Reply, Request};
use crate::files::scratch::Scratch;
use crate::runner::posix;
use serde::{Serialize, de::DeserializeOwned};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest line accepted from a worker.
const LINE_LIMIT: u64 = 64 << 20;
/// How much of a worker's standard error is kept for the reason of its death.
const TAIL_LIMIT: usize = 2000;

/// Environment variable that names the folder which a worker removes when its parent is gone.
pub(super) const SCRATCH: &str = "DAYLIGHT_WORKER_SCRATCH";

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

/// A running worker.
pub struct WorkerProcess {
    /// Its process id, which is that of its group too.
    id: u32,
    input: ChildStdin,
    lines: mpsc::Receiver<Vec<u8>>,
    errors: Arc<Mutex<VecDeque<u8>>>,
    /// Ends when the worker's error output does.
    error_reader: JoinHandle<()>,
    /// Bytes of memory that it may allocate.
    memory: Option<u64>,
    /// Draws the ids of requests, which nobody else can guess.
    ids: RandomState,
    asked: u64,
    /// It has been killed and reaped: its id may be another process's by now.
    gone: bool,
    /// For its temporary files: what a killed compiler leaves behind goes with it.
    _scratch: Scratch,
}

impl WorkerProcess {
    /// Starts a worker in a process group of its own. It, and each process that it starts, may allocate
    /// `memory` bytes; none of them leaves a core file.
    ///
    /// # Errors
    /// [`WorkerFault::Start`].
    pub fn start(command: &WorkerCommand, memory: Option<u64>) -> Result<WorkerProcess, WorkerFault> {
        let start = |e| WorkerFault::Start(format!("{}: {e}", command.program.display()));
        let scratch = Scratch::new().map_err(start)?;
        let mut child = Command::new(&command.program);
        child.args(&command.args).env("TMPDIR", scratch.path()).env(SCRATCH, scratch.path());
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        // SAFETY: between fork and exec only system calls are made.
        unsafe { child.pre_exec(move || posix::limit_self(memory)) };
        let mut child = child.spawn().map_err(start)?;
        let (input, output, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(stderr)) = (input, output, stderr) else {
            return Err(WorkerFault::Start("its pipes are missing".to_string()));
        };
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || read_lines(output, &send));
        let errors = Arc::new(Mutex::new(VecDeque::new()));
        let tail = errors.clone();
        let error_reader = std::thread::spawn(move || read_tail(stderr, &tail));
        let (id, ids) = (child.id(), RandomState::new());
        Ok(WorkerProcess {
            id,
            input,
            lines,
            errors,
            error_reader,
            memory,
            ids,
            asked: 0,
            gone: false,
            _scratch: scratch,
        })
    }

    /// Sends a request and waits for its reply. After a fault the worker is of no more use.
    ///
    /// # Errors
    /// [`WorkerFault`]; the process and its children are dead then.
    pub fn ask<Q: Serialize, R: DeserializeOwned>(&mut self, body: &Q, limit: Duration) -> Result<R, WorkerFault> {
        self.asked += 1;
        let id = self.ids.hash_one(self.asked);
        let asked = self.send(&Request { v: PROTOCOL, id, body }).and_then(|()| self.receive(id, limit));
        asked.inspect_err(|_| {
            self.kill();
        })
    }

    fn send<Q: Serialize>(&mut self, request: &Request<Q>) -> Result<(), WorkerFault> {
        let line = serde_json::to_vec(request).map_err(|e| WorkerFault::Garbage(format!("unwritable request: {e}")))?;
        let written = self.input.write_all(&line).and_then(|()| self.input.write_all(b"\n"));
        written.and_then(|()| self.input.flush()).map_err(|_| self.death())
    }

    fn receive<R: DeserializeOwned>(&mut self, id: u64, limit: Duration) -> Result<R, WorkerFault> {
        let line = match self.lines.recv_timeout(limit) {
            Ok(line) => line,
            Err(mpsc::RecvTimeoutError::Timeout) if is_stopped(self.id) => {
                return Err(WorkerFault::Ended("was stopped by somebody".to_string()));
            }
            Err(mpsc::RecvTimeoutError::Timeout) => return Err(WorkerFault::TimedOut(limit)),
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err(self.death()),
        };
        let garbage = || WorkerFault::Garbage(String::from_utf8_lossy(&line).trim().chars().take(200).collect());
        let reply: Reply<R> = serde_json::from_slice(&line).map_err(|_| garbage())?;
        if reply.v == PROTOCOL && reply.id == id { Ok(reply.body) } else { Err(garbage()) }
    }

    /// How the process ended, once its output has.
    fn death(&mut self) -> WorkerFault {
        let ended = eventually(|| posix::has_ended(self.id));
        let (how, from_outside) = match self.kill() {
            Some((status, peak)) if ended => {
                (describe(status, peak, self.memory), is_from_outside(status, peak, self.memory))
            }
            Some(_) | None => ("closed its output".to_string(), false),
        };
        // Its last words: whoever held its error output open is dead now too.
        eventually(|| self.error_reader.is_finished());
        let tail: Vec<u8> = self.errors.lock().map(|t| t.iter().copied().collect()).unwrap_or_default();
        let tail = String::from_utf8_lossy(&tail);
        let last = tail.trim();
        let text = if last.is_empty() { how } else { format!("{how}: {last}") };
        if from_outside { WorkerFault::Ended(text) } else { WorkerFault::Died(text) }
    }

    /// Kills the whole group; gives how the worker ended and its greatest size in bytes, the first time.
    fn kill(&mut self) -> Option<(ExitStatus, u64)> {
        if self.gone {
            return None;
        }
        self.gone = true;
        posix::kill_group(self.id);
        posix::reap(self.id)
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits a moment for something; true if it came.
fn eventually(mut so: impl FnMut() -> bool) -> bool {
    (0..100).any(|_| {
        let now = so();
        if !now {
            std::thread::sleep(Duration::from_millis(5));
        }
        now
    })
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

/// True for a process that got SIGSTOP, where the system tells.
fn is_stopped(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name before it is in parentheses and may hold anything.
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}
