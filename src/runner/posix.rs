//! The few system calls that std does not offer.

use std::ffi::{c_int, c_long, c_ulong, c_void};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

unsafe extern "C" {
    fn kill(pid: c_int, signal: c_int) -> c_int;
    fn nice(more: c_int) -> c_int;
    fn dup(fd: c_int) -> c_int;
    fn dup2(from: c_int, to: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
    fn getpgrp() -> c_int;
    fn setrlimit(resource: c_int, limit: *const Rlimit) -> c_int;
    fn getrlimit(resource: c_int, limit: *mut Rlimit) -> c_int;
    fn waitid(kind: c_int, pid: c_int, info: *mut SigInfo, options: c_int) -> c_int;
    fn mmap(at: *mut c_void, bytes: usize, access: c_int, flags: c_int, fd: c_int, offset: c_long) -> *mut c_void;
    fn mprotect(at: *mut c_void, bytes: usize, access: c_int) -> c_int;
    fn munmap(at: *mut c_void, bytes: usize) -> c_int;
    fn wait4(pid: c_int, status: *mut c_int, options: c_int, usage: *mut Rusage) -> c_int;
}

const SIGKILL: c_int = 9;
const RLIMIT_DATA: c_int = 2;
const RLIMIT_CORE: c_int = 4;
const UNLIMITED: c_ulong = c_ulong::MAX;
const P_PID: c_int = 1;
const WNOHANG: c_int = 1;
const WEXITED: c_int = 4;
const WNOWAIT: c_int = 0x0100_0000;

/// Bytes before and behind fenced memory that nothing may touch: a whole number of pages of any size.
const FENCE: usize = 1 << 16;
const NO_ACCESS: c_int = 0;
const READ_WRITE: c_int = 3;
const PRIVATE_ANONYMOUS: c_int = if cfg!(target_os = "macos") { 0x1002 } else { 0x22 };

/// Zeroed memory between pages that end the process when they are touched, at a multiple of a page. `None` where
/// there is none.
pub fn fenced(bytes: usize) -> Option<u64> {
    let inner = bytes.checked_next_multiple_of(FENCE)?;
    let all = inner.checked_add(2 * FENCE)?;
    // SAFETY: a mapping of its own, wherever the system puts it.
    let base = unsafe { mmap(std::ptr::null_mut(), all, NO_ACCESS, PRIVATE_ANONYMOUS, -1, 0) };
    if base.addr() == usize::MAX {
        return None;
    }
    let at = base.wrapping_byte_add(FENCE);
    // SAFETY: a part of that mapping, which nobody uses yet.
    if inner > 0 && unsafe { mprotect(at, inner, READ_WRITE) } != 0 {
        // SAFETY: the whole mapping, as above.
        unsafe { munmap(base, all) };
        return None;
    }
    Some(at as u64)
}

/// Gives memory of [`fenced`] back.
///
/// # Safety
/// `at` came from `fenced(bytes)`, is given back once, and nothing refers to it.
pub unsafe fn unfence(at: u64, bytes: usize) {
    let all = bytes.next_multiple_of(FENCE) + 2 * FENCE;
    // SAFETY: the mapping that `fenced` made, as promised by the caller.
    unsafe { munmap((at as *mut c_void).wrapping_byte_sub(FENCE), all) };
}

/// `struct rlimit`.
#[repr(C)]
struct Rlimit {
    soft: c_ulong,
    hard: c_ulong,
}

/// `siginfo_t` of a child that ended: three numbers, then from the next multiple of a pointer's size
/// the child's id, all within 128 bytes.
#[repr(C, align(8))]
struct SigInfo {
    head: [c_int; if cfg!(target_pointer_width = "64") { 4 } else { 3 }],
    pid: c_int,
    rest: [c_int; 28],
}

/// `struct rusage`.
#[repr(C)]
#[derive(Default)]
struct Rusage {
    times: [c_long; 4],
    /// Greatest resident size in KiB.
    peak: c_long,
    rest: [c_long; 13],
}

/// Lets processes of usual priority go first.
pub fn give_way() {
    const MORE: c_int = 10;
    // SAFETY: changes this process's priority. Where that is not allowed it stays as it is.
    unsafe { nice(MORE) };
}

/// Kills every process of a group whose leader was started with `process_group(0)`. A group that is
/// gone already is no error.
pub fn kill_group(leader: u32) {
    if let Ok(pid) = c_int::try_from(leader)
        && pid > 1
    {
        // SAFETY: no memory is involved; the group was made by us for this child.
        unsafe { kill(-pid, SIGKILL) };
    }
}

/// True when a child has ended. It is not reaped, so its number still names its group.
pub fn has_ended(child: u32) -> bool {
    let mut info = SigInfo { head: Default::default(), pid: 0, rest: [0; 28] };
    // SAFETY: writes one `siginfo_t`, which the structure has room for.
    let asked = unsafe { waitid(P_PID, child as c_int, &mut info, WEXITED | WNOHANG | WNOWAIT) };
    // An error means that there is no such child: it has been reaped.
    asked != 0 || info.pid != 0
}

/// Waits for a child that has ended or was killed; gives how it ended and its greatest resident size
/// in bytes. `None` if it was reaped before.
pub fn reap(child: u32) -> Option<(ExitStatus, u64)> {
    let (mut status, mut usage) = (0, Rusage::default());
    // SAFETY: writes one integer and one `struct rusage`.
    let reaped = unsafe { wait4(child as c_int, &mut status, 0, &mut usage) };
    (reaped > 0).then(|| (ExitStatus::from_raw(status), (usage.peak.max(0) as u64) << 10))
}

/// Limits this process and what it starts: no core files, and no more than `memory` bytes of private
/// writable memory. Memory that is only reserved does not count (allocators reserve a lot per
/// thread), so it is the data size that is limited and not the address space. Makes system calls only:
/// fit to be called between fork and exec.
///
/// # Errors
/// The system's, when a limit can't be set.
pub fn limit_self(memory: Option<u64>) -> io::Result<()> {
    let set = |resource, most: c_ulong| {
        // SAFETY: reads one structure.
        match unsafe { setrlimit(resource, &Rlimit { soft: most, hard: most }) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    set(RLIMIT_CORE, 0)?;
    match memory {
        None => Ok(()),
        Some(bytes) => set(RLIMIT_DATA, hard_limit(RLIMIT_DATA).min(c_ulong::try_from(bytes).unwrap_or(UNLIMITED))),
    }
}

/// The limit that may not be raised.
fn hard_limit(resource: c_int) -> c_ulong {
    let mut limit = Rlimit { soft: UNLIMITED, hard: UNLIMITED };
    // SAFETY: writes one structure.
    unsafe { getrlimit(resource, &mut limit) };
    limit.hard
}

/// Bytes that [`limit_self`] allows this process; `None` for any.
pub fn memory_limit() -> Option<u64> {
    let limit = hard_limit(RLIMIT_DATA);
    (limit != UNLIMITED).then_some(limit as u64)
}

/// A private copy of standard output; standard output itself becomes a copy of standard error, so
/// that whatever foreign code prints can't disturb the protocol.
///
/// # Errors
/// When a descriptor can't be copied.
pub fn take_stdout() -> io::Result<OwnedFd> {
    const STDOUT: RawFd = 1;
    const STDERR: RawFd = 2;
    // SAFETY: plain descriptor calls; the new descriptor is owned by nobody else.
    unsafe {
        let copy = dup(STDOUT);
        if copy < 0 || dup2(STDERR, STDOUT) < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(copy))
    }
}

/// Ends the process at once, and with it the compilers that it started if it leads a group of its own.
/// Nothing is torn down in order: a driver would wait for a kernel that never ends.
pub fn exit_now() -> ! {
    // SAFETY: asks for a number; ends processes of our group, this one last or never returning.
    unsafe {
        if u32::try_from(getpgrp()) == Ok(std::process::id()) {
            kill(0, SIGKILL);
        }
        _exit(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    fn shell(script: &str, memory: Option<u64>) -> std::process::Child {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdout(Stdio::piped()).process_group(0);
        // SAFETY: makes system calls only.
        unsafe { command.pre_exec(move || limit_self(memory)) };
        command.spawn().unwrap()
    }

    #[test]
    fn a_child_is_seen_to_end_before_it_is_reaped() {
        let mut child = shell("exit 7", None);
        while !has_ended(child.id()) {
            std::thread::yield_now();
        }
        let (status, peak) = reap(child.id()).unwrap();
        assert_eq!(status.code(), Some(7));
        assert!(peak > 100 << 10 && peak < 1 << 40, "{peak}");
        assert_eq!(reap(child.id()), None);
        assert!(child.wait().is_err());
    }

    #[test]
    fn limits_are_inherited() {
        let child = shell("sh -c 'ulimit -d; ulimit -c'", Some(512 << 20));
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "524288\n0\n");
    }

    #[test]
    fn a_group_dies_whole() {
        let mut child = shell("sleep 600 & wait", None);
        kill_group(child.id());
        assert_eq!(reap(child.id()).map(|(s, _)| s.signal()), Some(Some(SIGKILL)));
        assert!(child.wait().is_err());
    }
}
