//! cuBLASLt as a contender: the fastest of the algorithms that it proposes.

use super::booth::{Booth, Entrant, Missed, contender};
use crate::backend::{Arg, Dim, Plan, PlanLaunch};
use crate::ir::{DType, Name, Param};
use crate::job::{Device, Exit};
use crate::measure::fastest;
use crate::report::Contender;
use crate::rules::{Gemm, Matrix};
use crate::runner::gemm::{self, Call, Element};
use crate::runner::{Candidate, cuda};
use crate::target::Kind;

/// The contender `cublas`.
pub fn cublas(booth: &Booth<'_>, device: &mut Device) -> Entrant {
    match best(booth, device) {
        Ok((algorithm, candidate)) => {
            let detail =
                format!("cuBLASLt, the fastest of its first {} heuristics: {}", cuda::MOST_ALGORITHMS, algorithm + 1);
            (Contender { detail: Some(detail), ..contender("cublas") }, Ok(candidate))
        }
        Err(missed) => (contender("cublas"), Err(missed)),
    }
}

fn best(booth: &Booth<'_>, device: &mut Device) -> Result<(usize, Candidate), Missed> {
    let gemm = Gemm::of(&booth.subject.prepared, &booth.subject.target, &booth.cx.spaces);
    let gemm = gemm.map_err(|why| Missed::new("declined", Exit::Done, format!("not a product: {why}")))?;
    let call = call(booth, &gemm)?;
    if device.target.kind != Kind::Cuda {
        let reason = format!("cuBLAS runs on CUDA devices, and this is {}", device.describe());
        return Err(Missed::new("missing", Exit::Missing, reason));
    }
    let plan = plan(booth, &gemm)?;
    let candidate = |algorithm: usize| {
        let file = Call { algorithm, ..call.clone() }.write(booth.folder);
        file.map(|file| Candidate { id: algorithm as u64, file, plan: plan.clone() })
    };
    let candidates: Result<Vec<Candidate>, String> = (0..cuda::MOST_ALGORITHMS).map(candidate).collect();
    let candidates = candidates.map_err(|e| Missed::new("missing", Exit::Usage, e))?;
    Ok(fastest(device.runner(), candidates.into_iter())?)
}

/// The product as the worker is told it.
fn call(booth: &Booth<'_>, g: &Gemm) -> Result<Call, Missed> {
    let (a, b, c) = (matrix(&g.a)?, matrix(&g.b)?, matrix(&g.c)?);
    if a.element != b.element || (c.element != a.element && c.element != Element::Float32) {
        return Err(types("factors of one type, and a result of that or float32"));
    }
    let [batch, m, n, k] = [g.batch, g.m, g.n, g.k].map(|x| x.unsigned_abs());
    let library = booth.cx.machine.places.cublas_lt();
    Ok(Call { batch, m, n, k, a, b, c, algorithm: 0, library })
}

fn matrix(m: &Matrix) -> Result<gemm::Matrix, Missed> {
    let element = match m.dtype {
        DType::F32 => Element::Float32,
        DType::F16 => Element::Float16,
        DType::BF16 => Element::Bfloat16,
        _ => return Err(types("float32, float16 or bfloat16")),
    };
    Ok(gemm::Matrix { element, row: m.row, column: m.column, batch: m.batch })
}

fn types(expected: &str) -> Missed {
    Missed::new("declined", Exit::Done, format!("not a product: library_types: cuBLAS is asked for {expected} only"))
}

/// One launch, of the two factors and the result.
fn plan(booth: &Booth<'_>, g: &Gemm) -> Result<Plan, Missed> {
    let params = &booth.subject.prepared.func.params;
    let position = |name: &Name| params.iter().position(|p| matches!(p, Param::Buffer(b) if b == name));
    let found: Option<Vec<usize>> = [&g.a, &g.b, &g.c].into_iter().map(|m| position(&m.buffer)).collect();
    let absent = || Missed::new("declined", Exit::Done, "not a product: plain_factors: a matrix is no parameter");
    let one = || [1; 3].map(Dim::Const);
    let launch = PlanLaunch {
        symbol: "cublasLtMatmul".into(),
        grid: one(),
        block: one(),
        cluster: one(),
        dynamic_smem: Dim::Const(0),
        pdl: false,
        args: found.ok_or_else(absent)?.into_iter().map(|param| Arg::Param { param }).collect(),
    };
    Ok(Plan { launches: vec![launch], ..booth.plan()? })
}
