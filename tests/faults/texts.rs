//! `B[i] = 2 * A[i]` in C and in CUDA, right at several speeds and wrong in ten ways.

use super::{Fault, Kind};
use daylight::backend::{Arg, Dim, Language, Plan, PlanLaunch, PlanParam, PlanWorkspace, Role, Source, plan::Init};
use daylight::ir::DType;

/// Elements of the two tensors.
pub const N: usize = 1 << 16;
/// Elements of one block.
const BLOCK: i64 = 256;
/// More than any machine has.
const TEN_TIB: i64 = 10 << 40;

/// The kernel with a fault, or a right one that wastes `spin` units of time per block. `injected`: the
/// fault is done to it from outside, so it is a right one.
pub fn source(kind: Kind, target: &str, spin: i64, fault: Option<Fault>, injected: bool) -> Source {
    let wrong = fault.filter(|_| !injected);
    let symbol = symbol(fault);
    let (text, language) = match kind {
        Kind::Cpu => (c(&symbol, spin, wrong), Language::C),
        Kind::Cuda => (cuda(&symbol, spin, wrong), Language::Cuda),
    };
    Source { text, language, target: target.to_string(), symbols: vec![symbol] }
}

fn symbol(fault: Option<Fault>) -> String {
    fault.map_or("right".to_string(), |f| f.name().to_string())
}

/// How to launch it.
pub fn plan(kind: Kind, fault: Option<Fault>) -> Plan {
    let n = Dim::Const(N as i64);
    let param = |index, name: &str, role| PlanParam {
        index,
        name: name.to_string(),
        dtype: DType::F32,
        shape: vec![n.clone()],
        role,
    };
    let one = || Dim::Const(1);
    let threads = match kind {
        Kind::Cpu => 1,
        Kind::Cuda => BLOCK,
    };
    let workspace = match (kind, fault) {
        (Kind::Cuda, Some(Fault::HugeAllocation)) => TEN_TIB,
        (Kind::Cuda | Kind::Cpu, _) => 4096,
    };
    Plan {
        params: vec![param(0, "A", Role::In), param(1, "B", Role::Out)],
        workspaces: vec![PlanWorkspace { bytes: Dim::Const(workspace), init: Init::None }],
        launches: vec![PlanLaunch {
            symbol: symbol(fault),
            grid: [Dim::Const(N as i64 / BLOCK), one(), one()],
            block: [Dim::Const(threads), one(), one()],
            cluster: [one(), one(), one()],
            dynamic_smem: Dim::Const(0),
            pdl: false,
            args: vec![Arg::Param { param: 0 }, Arg::Param { param: 1 }, Arg::Workspace { workspace: 0 }],
        }],
    }
}

fn c(symbol: &str, spin: i64, fault: Option<Fault>) -> String {
    let (before, harm) = fault.map_or(("", ""), c_fault);
    let bomb = if fault == Some(Fault::EndlessCompile) { c_bomb() } else { String::new() };
    format!(
        "{bomb}void *malloc(unsigned long); void exit(int); void abort(void); long write(int, const void *, unsigned long);
void {symbol}(void *const *buffers, const long *scalars, long begin, long end) {{
  const float *a = buffers[0]; float *b = buffers[1];
  (void)scalars;
  {before}
  for (volatile long s = 0; s < {spin} * (end - begin); s++) {{}}
  for (long i = begin * {BLOCK}; i < end * {BLOCK}; i++) b[i] = 2 * a[i]{harm};
}}
"
    )
}

/// What a faulty kernel in C does first, and what it adds to its results.
fn c_fault(fault: Fault) -> (&'static str, &'static str) {
    match fault {
        Fault::IllegalAccess => ("*(volatile float *)8 = 1;", ""),
        // A load that asks for alignment: of a vector on x86, of an exclusive access on ARM.
        Fault::MisalignedAccess => (
            "#if defined(__x86_64__)
  __asm__ volatile(\"movaps (%0), %%xmm0\" : : \"r\"((const char *)a + 1) : \"xmm0\", \"memory\");
#else
  __asm__ volatile(\"ldaxr x9, [%0]\" : : \"r\"((const char *)a + 1) : \"x9\", \"memory\");
#endif",
            "",
        ),
        Fault::EndlessLoop => ("for (volatile int i = 0;;) i++;", ""),
        Fault::Trap => ("__builtin_trap();", ""),
        Fault::Exit => ("exit(0);", ""),
        Fault::Abort => ("abort();", ""),
        // Written to page by page, so that the memory is really taken.
        Fault::HugeAllocation => (
            "for (;;) { volatile char *p = malloc(16 << 20); for (long i = 0; i < 16 << 20; i += 4096) p[i] = 1; }",
            "",
        ),
        Fault::EndlessCompile => ("", ""),
        // The worker's end of the pipe is one of these.
        Fault::Garbage => ("for (int d = 0; d <= 64; d++) write(d, \"garbage\\n\", 8);", ""),
        Fault::WrongNumbers => ("", " + (i == 77)"),
    }
}

/// Keeps the assembler, a grandchild of the worker, busy for a thousand years in 4 MB.
fn c_bomb() -> String {
    let mut text = "__asm__(\n\".macro m0\\n.endm\\n\"\n".to_string();
    for i in 1..=18 {
        let call = format!("m{}\\n", i - 1).repeat(8);
        text += &format!("\".macro m{i}\\n{call}.endm\\n\"\n");
    }
    text + "\"m18\\n\");\n"
}

fn cuda(symbol: &str, spin: i64, fault: Option<Fault>) -> String {
    let (before, harm) = fault.map_or(("", ""), cuda_fault);
    let bomb = if fault == Some(Fault::EndlessCompile) { cuda_bomb() } else { String::new() };
    format!(
        "{bomb}extern \"C\" __global__ void __launch_bounds__({BLOCK}) {symbol}(const float* a, float* b, float* w) {{
  const int i = blockIdx.x * {BLOCK} + threadIdx.x;
  {before}
  const long long start = clock64();
  while (clock64() - start < {spin}) {{}}
  b[i] = 2 * a[i]{harm};
}}
"
    )
}

/// What a faulty kernel in CUDA does first, and what it adds to its results.
fn cuda_fault(fault: Fault) -> (&'static str, &'static str) {
    match fault {
        Fault::IllegalAccess => ("*reinterpret_cast<volatile float*>(16) = 1;", ""),
        Fault::MisalignedAccess => (
            "float x, y, z, t; asm volatile(\"ld.global.v4.f32 {%0, %1, %2, %3}, [%4];\" : \"=f\"(x), \"=f\"(y), \"=f\"(z), \"=f\"(t) : \"l\"(a + 1)); w[0] = x + y + z + t;",
            "",
        ),
        Fault::EndlessLoop => ("while (*reinterpret_cast<volatile int*>(w) != 12345) {}", ""),
        Fault::Trap => ("asm volatile(\"trap;\");", ""),
        Fault::EndlessCompile => ("BOMB", ""),
        Fault::WrongNumbers => ("", " + (i == 77)"),
        // The first is a matter of the plan, the others are done to the process.
        Fault::HugeAllocation | Fault::Exit | Fault::Abort | Fault::Garbage => ("", ""),
    }
}

/// Keeps NVRTC's optimiser busy for minutes in 300 MB: thousands of dependent statements with branches.
fn cuda_bomb() -> String {
    let mut text = "#define A0(i) x[(i) % 96] += x[((i) * 7 + 3) % 96] * x[((i) * 5 + 1) % 96]; \
         if (x[(i) % 96] > 1) { x[((i) * 11 + 5) % 96] -= 1; w[(i)] = x[(i) % 96]; }\n"
        .to_string();
    for k in 1..=12 {
        text += &format!("#define A{k}(i) A{}(i) A{}((i) + {})\n", k - 1, k - 1, 1 << (k - 1));
    }
    text + "#define BOMB float x[96]; for (int k = 0; k < 96; k++) x[k] = a[k * 32 + threadIdx.x]; A12(0) \
         for (int k = 0; k < 96; k++) w[k] = x[k];\n"
}
