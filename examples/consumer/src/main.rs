//! Prints the means of a matrix's rows.

use consumer::kernels::cpu;

fn main() -> Result<(), cpu::Error> {
    let (rows, columns) = (2048, 8192);
    let a: Vec<f32> = (0..rows * columns).map(|i| (i % columns) as f32).collect();
    let mut b = vec![0.0; rows];
    cpu::mean(&a, &mut b, cpu::Rayon)?;
    println!("mean of row 0: {}, of row {}: {}", b[0], rows - 1, b[rows - 1]);
    Ok(())
}
