//! Machine code as `nvdisasm` prints it: the instructions of one kernel.

/// What the table counts: mnemonics up to the first dot, and one width.
pub const COUNTED: [&str; 8] = ["FADD", "FADD2", "FMNMX", "FMNMX3", "LDG", "LDG.256", "QMMA.SF", "OMMA.SF"];

/// The instructions of one kernel.
pub struct Kernel {
    /// Mnemonics with their suffixes, in order, to the last `EXIT`.
    pub instructions: Vec<String>,
    /// First and last instruction of the longest loop.
    pub main_loop: Option<(usize, usize)>,
    /// The same of all loops.
    loops: Vec<(usize, usize)>,
}

impl Kernel {
    /// The kernel of that name.
    pub fn of(sass: &str, name: &str) -> Kernel {
        let start = format!(".text.{name}:");
        let body =
            sass.lines().skip_while(|l| l.trim() != start).skip(1).take_while(|l| !l.trim().starts_with(".section"));
        let (mut instructions, mut labels, mut loops) = (vec![], vec![], vec![]);
        for line in body.map(str::trim) {
            if let Some(label) = line.strip_suffix(':') {
                labels.push((label.to_string(), instructions.len()));
            }
            let Some((_, code)) = line.split_once("*/") else { continue };
            let mut words = code.split_whitespace().filter(|w| !w.starts_with('@'));
            let Some(mnemonic) = words.next().map(|w| w.trim_end_matches(';')) else { continue };
            let at = instructions.len();
            instructions.push(mnemonic.to_string());
            let back = labels.iter().filter(|(label, to)| code.contains(&format!("`({label})")) && *to < at);
            loops.extend(back.map(|(_, to)| (*to, at)));
        }
        let end = instructions.iter().rposition(|i| i.starts_with("EXIT")).map_or(0, |at| at + 1);
        instructions.truncate(end);
        let length = |(a, b): &(usize, usize)| b - a;
        // of equally long ones the first
        let longest = loops.iter().rev().max_by_key(|l| length(l)).copied();
        loops.retain(|(_, b)| *b < end);
        Kernel { instructions, main_loop: longest.filter(|(_, b)| *b < end), loops }
    }

    /// The instructions of the longest loop, or of the kernel where that has no instruction of a kind.
    pub fn main_part(&self, kind: impl Fn(&str) -> bool) -> &[String] {
        let part = self.main_loop.map_or(&self.instructions[..], |(a, b)| &self.instructions[a..=b]);
        if part.iter().any(|i| kind(i)) { part } else { &self.instructions }
    }

    /// The instructions of the shortest loop that has one of a kind.
    pub fn loop_with(&self, kind: impl Fn(&str) -> bool) -> Option<&[String]> {
        let of = |(a, b): &(usize, usize)| &self.instructions[*a..=*b];
        self.loops.iter().map(of).filter(|l| l.iter().any(|i| kind(i))).min_by_key(|l| l.len())
    }

    /// How many instructions are of that kind, one of [`COUNTED`].
    pub fn count(&self, kind: &str) -> usize {
        let is = |i: &&String| match kind.split_once('.') {
            Some((base, width)) => i.split('.').next() == Some(base) && i.split('.').any(|s| s == width),
            None => i.split('.').next() == Some(kind),
        };
        self.instructions.iter().filter(is).count()
    }

    /// Instructions of one turn of the longest loop; of the kernel where it has none.
    pub fn turn(&self) -> usize {
        self.main_loop.map_or(self.instructions.len(), |(a, b)| b - a + 1)
    }
}

#[test]
fn loops_and_instructions_are_found() {
    let code = "
.text.other:
        /*0000*/                   FADD R1, R1, R2 ;
\t.section\t.text.k,\"ax\"
.text.k:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_0:
        /*0010*/                   LDG.E.ENL2.256 R4, R8, [R2] ;
        /*0020*/                   LDG.E.128 R4, [R2] ;
        /*0030*/              @!P0 FADD2.FTZ R0, R0, R4 ;
        /*0040*/              @!P0 BRA `(.L_x_0) ;
        /*0050*/                   EXIT ;
.L_x_1:
        /*0060*/                   BRA `(.L_x_1);
        /*0070*/                   NOP;
";
    let k = Kernel::of(code, "k");
    assert_eq!(COUNTED.map(|c| k.count(c)), [0, 1, 0, 0, 2, 1, 0, 0]);
    assert_eq!((k.instructions.len(), k.turn()), (6, 4));
    assert_eq!(Kernel::of(code, "none").turn(), 0);
}
