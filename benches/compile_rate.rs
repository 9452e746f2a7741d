//! Kernels per second that a pool of compile workers reaches with NVRTC. No GPU is needed.
//!
//! `compile_rate DAYLIGHT WORKERS KERNELS FILE...`: candidates of the given functions, as many of each,
//! compiled for sm_90a by `WORKERS` processes of the command `DAYLIGHT`.

use daylight::assemble::Subject;
use daylight::backend::{Compiler, Places, Source, Tools};
use daylight::ir;
use daylight::rules::Spaces;
use daylight::runner::{CompilePool, Limits, WorkerCommand};
use daylight::target::{HostCpu, Target};
use std::time::Instant;

fn sources(file: &str, count: usize) -> Vec<Source> {
    let text = std::fs::read_to_string(file).expect("a readable file");
    let func = ir::read(&text, file).expect("a function").remove(0);
    let target = Target::parse("cuda:sm_90a", &HostCpu::default()).expect("a known target");
    let subject = Subject::new(&func, &func, target).expect("a function that is scheduled");
    let arms = subject.arms(&Spaces::built_in());
    let arm = arms.first().expect("a rule takes it");
    let points: Vec<_> = arm.space.points();
    let step = (points.len() / count).max(1);
    points.iter().step_by(step).take(count).filter_map(|k| subject.candidate(arm, k).ok()).map(|a| a.source).collect()
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let [daylight, workers, kernels, files @ ..] = &args[..] else {
        println!("usage: compile_rate DAYLIGHT WORKERS KERNELS FILE...");
        return;
    };
    let (workers, kernels): (usize, usize) = (workers.parse().expect("a number"), kernels.parse().expect("a number"));
    let places = Places::of(|name| std::env::var_os(name), None);
    let tools = Tools::find(&places, daylight::backend::Language::Cuda);
    let pool = CompilePool::new(WorkerCommand::daylight(daylight, "compile"), tools, workers, Limits::default());
    for file in files {
        let all = sources(file, kernels);
        let warm: Vec<Source> = all.iter().take(workers).cloned().collect();
        pool.compile_many(&warm);
        let start = Instant::now();
        let failed = pool.compile_many(&all).iter().filter(|r| r.is_err()).count();
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{file}: {} kernels, {failed} failed, {workers} workers, {:.0} kernels/s",
            all.len(),
            all.len() as f64 / seconds
        );
    }
}
