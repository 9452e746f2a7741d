use daylight::backend::*;
use std::time::{Duration, Instant};
fn main() {
    let places = Places::of(|k| std::env::var_os(k), Some("/tmp/bk/cache".into()));
    if std::env::args().nth(1).as_deref() == Some("fetch") {
        println!("{:?}", nvrtc::fetch_nvrtc(&places));
        println!("{:?}", nvrtc::fetch_nvdisasm(&places));
    }
    let tools = Tools::find(&places, Language::Cuda);
    println!("{tools:?}");
    let c = LocalCompiler::new(tools.clone());
    let text = "extern \"C\" __global__ void __launch_bounds__(256) k(const float* __restrict__ a, float* __restrict__ b, long long n){ __shared__ float s[32]; int unused; float x=0; for(int i=threadIdx.x;i<n;i+=256) x+=__ldcs(a+blockIdx.x*n+i); for(int d=16;d;d/=2) x+=__shfl_xor_sync(0xffffffffu,x,d); if(threadIdx.x%32==0) s[threadIdx.x/32]=x; __syncthreads(); if(threadIdx.x==0){float t=0; for(int i=0;i<8;i++) t+=s[i]; b[blockIdx.x]=t+expf(t);} }";
    let src = |t: String, target: &str| Source {
        text: t,
        language: Language::Cuda,
        target: target.into(),
        symbols: vec!["k".into()],
    };
    for t in ["cuda:sm_80", "cuda:sm_90a", "cuda:sm_100a", "cuda:sm_120a", "cuda:sm_12"] {
        let t0 = Instant::now();
        let r = c.compile(&src(text.into(), t));
        println!("{t} {:?} {:?}", r.map(|a| (a.res, a.bytes.len(), a.warnings, a.compiler)), t0.elapsed());
    }
    println!("{}", c.compile(&src("blah".into(), "cuda:sm_90a")).unwrap_err());
    println!("{}", &c.nvrtc().unwrap().ptx(text, "cuda:sm_90a").unwrap()[..200]);
    if let Some(d) = nvrtc::find_nvdisasm(&places) {
        let a = c.compile(&src(text.into(), "cuda:sm_90a")).unwrap();
        println!("{}", nvrtc::sass(&d, &a.path).unwrap().lines().count());
    }
    let pool = CompilePool::new(
        WorkerCommand::daylight("target/debug/daylight", "compile"),
        tools,
        2,
        Duration::from_secs(10),
    );
    let many: Vec<_> = (0..100).map(|i| src(format!("{text}\n//{i} {:?}", Instant::now()), "cuda:sm_90a")).collect();
    let t0 = Instant::now();
    let r = pool.compile_many(&many);
    println!("{} ok {:?}", r.iter().filter(|r| r.is_ok()).count(), t0.elapsed());
    let t0 = Instant::now();
    let r = c.compile_many(
        &many
            .iter()
            .map(|s| {
                let mut s = s.clone();
                s.text += "x";
                s
            })
            .collect::<Vec<_>>(),
    );
    println!("{} ok {:?} {:?}", r.iter().filter(|r| r.is_ok()).count(), t0.elapsed(), r[0]);
}
