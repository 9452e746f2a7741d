//! Reading what `ptxas -v` and the compiler wrote to the program log.

use crate::backend::Resources;

/// The greatest use over the kernels of a log.
pub fn resources(log: &str) -> Resources {
    let mut res = Resources::default();
    for line in log.lines() {
        let spills = before(line, "bytes spill stores") + before(line, "bytes spill loads");
        res.spill = res.spill.max(spills);
        if line.contains("Used ") {
            res.regs = res.regs.max(before(line, "registers"));
            res.smem = res.smem.max(before(line, "bytes smem"));
        }
    }
    res
}

/// The number just before `words`; 0 if there is none.
fn before(line: &str, words: &str) -> u32 {
    let Some(at) = line.find(words) else { return 0 };
    line[..at].split_whitespace().next_back().and_then(|w| w.parse().ok()).unwrap_or(0)
}

/// The log of a failure without the lines of `ptxas -v`.
pub fn messages(log: &str) -> String {
    let verbose = |l: &str| {
        let l = l.trim();
        l.is_empty() || (l.starts_with("ptxas info") && !l.contains("warning")) || l.contains("bytes stack frame")
    };
    log.lines().filter(|l| !verbose(l)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'a' for 'sm_90a'
ptxas info    : Function properties for a
    16 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 16 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 1.0 ms
ptxas info    : Compiling entry function 'b' for 'sm_90a'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers
kernel.cu(3): warning #177-D: variable \"x\" was declared but never referenced
";

    #[test]
    fn the_greatest_use_counts() {
        assert_eq!(resources(LOG), Resources { regs: 255, spill: 56, smem: 1024 });
        assert_eq!(resources(""), Resources::default());
    }

    #[test]
    fn only_messages_remain() {
        assert_eq!(messages(LOG), "kernel.cu(3): warning #177-D: variable \"x\" was declared but never referenced");
    }
}
