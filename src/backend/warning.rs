//! What a compiler said although it succeeded.

use crate::log::Warning;

/// The warnings of a list of messages, each once, in the order in which they came.
pub fn once(messages: impl IntoIterator<Item = Warning>) -> Vec<Warning> {
    let mut out: Vec<Warning> = vec![];
    for m in messages {
        let same =
            |w: &&mut Warning| w.code == m.code && w.kernel == m.kernel && (w.text == m.text || !w.code.is_empty());
        match out.iter_mut().find(same) {
            Some(w) => w.count += m.count,
            None => out.push(m),
        }
    }
    out
}

/// The warnings of a log of NVRTC, whose last step is ptxas, or of a C compiler.
pub fn parse(log: &str) -> Vec<Warning> {
    once(log.lines().filter_map(|l| of_ptxas(l).or_else(|| of_front_end(l))))
}

/// `ptxas info    : (C7514) ... in the function 'k'`, `ptxas warning : ...`. Lines of level `info`
/// without a code are the statistics of `-v`.
fn of_ptxas(line: &str) -> Option<Warning> {
    let rest = line.trim().strip_prefix("ptxas")?.trim_start();
    let (level, message) = rest.split_once(':')?;
    let message = message.trim();
    let coded = message.strip_prefix('(').and_then(|m| m.split_once(')'));
    let coded = coded.filter(|(code, _)| is_code(code));
    let (code, text) = match (coded, level.trim()) {
        (Some((code, text)), _) => (code, text),
        (None, "warning") => ("", message),
        (None, _) => return None,
    };
    let (text, kernel) = named(text);
    Some(Warning { code: code.to_string(), text: words(text), kernel, count: 1 })
}

/// `C7508`.
fn is_code(code: &str) -> bool {
    code.strip_prefix('C').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// A message and the kernel whose name ends it.
fn named(text: &str) -> (&str, Option<String>) {
    for words in [" in the function '", " in function '"] {
        if let Some((before, name)) = text.trim().rsplit_once(words)
            && let Some(name) = name.strip_suffix('\'')
        {
            return (before, Some(name.to_string()));
        }
    }
    (text, None)
}

/// `kernel.cu(3): warning #177-D: ...` of NVRTC, `kernel.c:1:2: warning: ... [-Wcpp]` of a C compiler.
fn of_front_end(line: &str) -> Option<Warning> {
    let (place, rest) = line.split_once(" warning")?;
    if !place.ends_with(':') {
        return None;
    }
    let (code, text) = rest.split_once(':')?;
    let (text, flag) = match text.trim_end().strip_suffix(']').and_then(|t| t.rsplit_once(" [")) {
        Some((text, flag)) if flag.starts_with("-W") => (text, flag),
        _ => (text, ""),
    };
    let code = if code.trim().is_empty() { flag } else { code.trim() };
    Some(Warning { code: code.to_string(), text: words(text), kernel: None, count: 1 })
}

/// The words of a text with one space between them, without `in around line 86` of an assembler text
/// that nobody sees.
fn words(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let place = words.windows(3).position(|w| w == ["in", "around", "line"]);
    match place {
        Some(at) => [&words[..at], words.get(at + 4..).unwrap_or(&[])].concat().join(" "),
        None => words.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines that NVRTC 13.0 wrote.
    const LOG: &str = "\
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.
ptxas info    : (C7519) warpgroup.arrive is injected in around line 86 by compiler to allow use of registers in GMMA in function 'k'
ptxas info    : (C7519) warpgroup.arrive is injected in around line 98 by compiler to allow use of registers in GMMA in function 'k'
ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized due to non wgmma instructions reading accumulator registers of  a wgmma between start and end of the pipeline stage in the function 'k'
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 42 registers, used 0 barriers
ptxas info    : Compile time = 10.964 ms
kernel.cu(1): warning #177-D: variable \"x\" was declared but never referenced
  extern \"C\" __global__ void k(float *o){ int x; o[0]=1.f; }
                                              ^

Remark: The warnings can be suppressed with \"-diag-suppress <warning-number>\"
";

    #[test]
    fn messages_are_told_from_statistics() {
        let shown: Vec<String> = parse(LOG).iter().map(Warning::to_string).collect();
        let want = [
            "C7508: Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.",
            "C7519 in k: warpgroup.arrive is injected by compiler to allow use of registers in GMMA (2 times)",
            "C7514 in k: Potential Performance Loss: wgmma.mma_async instructions are serialized due to non wgmma \
             instructions reading accumulator registers of a wgmma between start and end of the pipeline stage",
            "#177-D: variable \"x\" was declared but never referenced",
        ];
        assert_eq!(shown, want);
        let slow: Vec<bool> = parse(LOG).iter().map(Warning::loses_speed).collect();
        assert_eq!(slow, [true, false, true, false]);
    }

    #[test]
    fn messages_of_one_kind_are_kept_by_kernel() {
        let line = |k: &str| format!("ptxas info : (C7511) Potential Performance Loss: x in the function '{k}'\n");
        let all = parse(&[line("a"), line("b"), line("a")].concat());
        let of = |w: &Warning| (w.kernel.clone().unwrap_or_default(), w.count);
        assert_eq!(all.iter().map(of).collect::<Vec<_>>(), [("a".into(), 2), ("b".into(), 1)]);
        assert_eq!(parse("ptxas warning : one thing\nptxas warning : another\nptxas fatal : no\n").len(), 2);
    }

    #[test]
    fn a_c_compiler_names_its_flag() {
        let log = "kernel.c:1:2: warning: #warning look  here [-Wcpp]\n    1 | #warning look here\nkernel.c: In function 'f':\n";
        let want = Warning { code: "-Wcpp".into(), text: "#warning look here".into(), kernel: None, count: 1 };
        assert_eq!(parse(log), [want]);
        assert_eq!(parse("a (b) c: : (\nptxas\nptxas info\n warning\n: warning"), []);
    }
}
