//! The kernels that the build script compiled in give the right numbers.

use consumer::kernels::cpu;

#[test]
fn means_are_right_on_any_number_of_threads() {
    let (rows, columns) = (2048, 8192);
    let a: Vec<f32> = (0..rows * columns).map(|i| ((i * 7919) % 1000) as f32 / 1000.0 - 0.5).collect();
    for threads in [1, 2, 5] {
        let mut b = vec![f32::NAN; rows];
        cpu::mean(&a, &mut b, threads).expect("the kernel runs");
        for (row, got) in b.iter().enumerate() {
            let sum: f64 = a[row * columns..][..columns].iter().map(|x| f64::from(*x)).sum();
            let want = sum / columns as f64;
            assert!((f64::from(*got) - want).abs() < 1e-5, "row {row}: {got}, expected {want}");
        }
    }
}

#[test]
fn rows_are_scaled_and_clipped() {
    let (rows, columns) = (64, 96);
    let x: Vec<f32> = (0..rows * columns).map(|i| (i as f32 * 0.37).sin()).collect();
    let s: Vec<f32> = (0..columns).map(|j| j as f32 / 30.0).collect();
    let mut y = vec![f32::NAN; rows * columns];
    cpu::scale_rows(&x, &s, &mut y, 2).expect("the kernel runs");
    for (i, got) in y.iter().enumerate() {
        assert_eq!(*got, (x[i] * s[i % columns]).clamp(-1.0, 1.0), "element {i}");
    }
}

#[test]
fn sizes_may_be_given_at_run_time() {
    // Below, at, between and above those that are tuned.
    for rows in (1..20).chain([127, 128, 129, 200, 1023, 1024, 1025, 5000]) {
        let x: Vec<f32> = (0..rows * 96).map(|i| i as f32).collect();
        let mut z = vec![f32::NAN; rows * 96];
        cpu::add_rows(&x, &x, &mut z, rows, 3).expect("the kernel runs");
        assert!(z.iter().zip(&x).all(|(z, x)| *z == 2.0 * x), "{rows} rows");
    }
    let (x, mut z) = ([0.0; 96], [0.0; 96]);
    for rows in [0, 2, usize::MAX, usize::MAX / 96] {
        assert!(cpu::add_rows(&x, &x, &mut z, rows, 1).is_err(), "{rows} rows");
    }
}

#[test]
fn kernels_run_on_the_threads_of_rayon() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().expect("a pool");
    let x: Vec<f32> = (0..2000 * 96).map(|i| i as f32).collect();
    let mut z = vec![f32::NAN; x.len()];
    cpu::add_rows(&x, &x, &mut z, 2000, &pool).expect("the kernel runs");
    assert!(z.iter().zip(&x).all(|(z, x)| *z == 2.0 * x));
    z.fill(f32::NAN);
    // From within a pool, as another one's task.
    pool.install(|| cpu::add_rows(&x, &x, &mut z, 2000, cpu::Rayon)).expect("the kernel runs");
    assert!(z.iter().zip(&x).all(|(z, x)| *z == 2.0 * x));
}

/// What the log has is what is built in; the build would say so otherwise.
#[test]
fn the_kernels_are_tuned() {
    let manifest = include_str!(concat!(env!("OUT_DIR"), "/manifest.json"));
    let of_cpu = |rung: &str| manifest.matches(&format!("\"rung\": \"{rung}\"")).count();
    if cfg!(all(target_arch = "x86_64", not(feature = "cuda"))) {
        assert_eq!(of_cpu("default"), 0, "{manifest}");
        assert!(of_cpu("exact") + of_cpu("same_arch") >= 6, "{manifest}");
    }
}

#[test]
fn short_slices_are_refused() {
    let e = cpu::mean(&[0.0; 8], &mut [0.0; 2048], 1).unwrap_err();
    assert_eq!(e.to_string(), "`a` holds 8 elements, 16777216 are needed");
}

#[cfg(feature = "cuda")]
#[test]
fn cuda_kernels_run_where_there_is_a_gpu() {
    use consumer::kernels::cuda;
    use cudarc::driver::CudaContext;
    // cudarc panics where the driver is missing, so ask before the first call.
    if !unsafe { cudarc::driver::sys::is_culib_present() } {
        eprintln!("skipped: no CUDA driver");
        return;
    }
    let context = CudaContext::new(0).expect("a device");
    let stream = context.default_stream();
    let kernel = match cuda::Mean::load(&context) {
        Err(cuda::Error::Architecture { device, .. }) => return eprintln!("skipped: no kernel for {device:?}"),
        kernel => kernel.expect("the kernel loads"),
    };
    let (rows, columns) = (2048, 8192);
    let a: Vec<f32> = (0..rows * columns).map(|i| ((i * 7919) % 1000) as f32 / 1000.0 - 0.5).collect();
    let (device_a, mut device_b) = (stream.clone_htod(&a).expect("copied"), stream.alloc_zeros(rows).expect("memory"));
    let mut workspace = match kernel.workspace_bytes() {
        0 => None,
        bytes => Some(stream.alloc_zeros::<u8>(bytes).expect("memory")),
    };
    kernel.launch(&stream, &device_a, &mut device_b, workspace.as_mut()).expect("the kernel runs");
    let b: Vec<f32> = stream.clone_dtoh(&device_b).expect("copied");
    for (row, got) in b.iter().enumerate() {
        let sum: f64 = a[row * columns..][..columns].iter().map(|x| f64::from(*x)).sum();
        assert!((f64::from(*got) - sum / columns as f64).abs() < 1e-5, "row {row}");
    }
    let short = stream.alloc_zeros::<f32>(8).expect("memory");
    let refused = kernel.launch(&stream, &short, &mut device_b, workspace.as_mut());
    assert!(matches!(refused, Err(cuda::Error::Argument(_))));
}
