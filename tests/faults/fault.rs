//! The ten faults and what has to become of them.

use daylight::log::Outcome;

/// What kind of device it happens on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The host.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
}

/// What a candidate does wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    IllegalAccess,
    MisalignedAccess,
    EndlessLoop,
    Trap,
    Exit,
    Abort,
    HugeAllocation,
    EndlessCompile,
    Garbage,
    WrongNumbers,
}

impl Fault {
    pub const ALL: [Fault; 10] = [
        Fault::IllegalAccess,
        Fault::MisalignedAccess,
        Fault::EndlessLoop,
        Fault::Trap,
        Fault::Exit,
        Fault::Abort,
        Fault::HugeAllocation,
        Fault::EndlessCompile,
        Fault::Garbage,
        Fault::WrongNumbers,
    ];

    /// Its name, which is that of its kernel too.
    pub fn name(self) -> &'static str {
        match self {
            Fault::IllegalAccess => "illegal_access",
            Fault::MisalignedAccess => "misaligned_access",
            Fault::EndlessLoop => "endless_loop",
            Fault::Trap => "trap",
            Fault::Exit => "exit_zero",
            Fault::Abort => "abort_process",
            Fault::HugeAllocation => "huge_allocation",
            Fault::EndlessCompile => "endless_compile",
            Fault::Garbage => "garbage",
            Fault::WrongNumbers => "wrong_numbers",
        }
    }

    /// True for what a kernel on a GPU cannot do to its process. There the process does it itself: it is
    /// a go-between in front of the real worker.
    pub fn is_of_process(self) -> bool {
        match self {
            Fault::Exit | Fault::Abort | Fault::Garbage => true,
            Fault::IllegalAccess
            | Fault::MisalignedAccess
            | Fault::EndlessLoop
            | Fault::Trap
            | Fault::HugeAllocation
            | Fault::EndlessCompile
            | Fault::WrongNumbers => false,
        }
    }

    /// The outcome that its record must have, and what the reason must say.
    pub fn expected(self, kind: Kind) -> (Outcome, &'static str) {
        let x86 = cfg!(target_arch = "x86_64");
        match (self, kind) {
            (Fault::IllegalAccess, Kind::Cpu) => (Outcome::Crashed, "SIGSEGV"),
            (Fault::IllegalAccess, Kind::Cuda) => (Outcome::LaunchFailed, "ILLEGAL_ADDRESS"),
            (Fault::MisalignedAccess, Kind::Cpu) => (Outcome::Crashed, if x86 { "SIGSEGV" } else { "SIGBUS" }),
            (Fault::MisalignedAccess, Kind::Cuda) => (Outcome::LaunchFailed, "MISALIGNED_ADDRESS"),
            (Fault::EndlessLoop, _) => (Outcome::TimedOut, "no answer within"),
            (Fault::Trap, Kind::Cpu) => (Outcome::Crashed, if x86 { "SIGILL" } else { "SIGTRAP" }),
            (Fault::Trap, Kind::Cuda) => (Outcome::LaunchFailed, "CUDA_ERROR_"),
            (Fault::Exit, _) => (Outcome::Crashed, "exit code 0"),
            (Fault::Abort, _) => (Outcome::Crashed, "SIGABRT"),
            (Fault::HugeAllocation, Kind::Cpu) => (Outcome::Crashed, "its limit being"),
            (Fault::HugeAllocation, Kind::Cuda) => (Outcome::LaunchFailed, "are free"),
            (Fault::EndlessCompile, _) => (Outcome::TimedOut, "compiling: no answer within"),
            (Fault::Garbage, _) => (Outcome::Crashed, "no reply: garbage"),
            (Fault::WrongNumbers, _) => (Outcome::WrongResult, "is wrong"),
        }
    }
}
