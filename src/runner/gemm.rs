//! A product of matrices that a library computes, as a file that a runner loads in the place of a compiled one.
//!
//! Libraries have their matrices column by column. What lies row by row is there its transpose, so that of `c = a * b` they are
//! asked for `c' = b' * a'`: the first of their factors is `b`.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// How the names of such files end.
const EXTENSION: &str = "gemm";

/// Type of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // the names say it
pub enum Element {
    Float32,
    Float16,
    Bfloat16,
}

/// One matrix, in elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Matrix {
    /// Type of its elements.
    pub element: Element,
    /// From one row to the next.
    pub row: i64,
    /// From one column to the next.
    pub column: i64,
    /// From one matrix of the batch to the next.
    pub batch: i64,
}

/// `batch` products `c = a * b` with sums in float32, and which of the library's ways to compute them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Call {
    /// Products.
    pub batch: u64,
    /// Rows of `a` and `c`.
    pub m: u64,
    /// Columns of `b` and `c`.
    pub n: u64,
    /// Columns of `a`, rows of `b`.
    pub k: u64,
    /// The left factor.
    pub a: Matrix,
    /// The right factor.
    pub b: Matrix,
    /// The result, row by row.
    pub c: Matrix,
    /// Position in the library's own order, the most promising first.
    pub algorithm: usize,
    /// The library's file, where it was found beside the usual places.
    pub library: Option<PathBuf>,
}

/// True for a file that [`Call::write`] wrote.
pub fn is_call(file: &Path) -> bool {
    file.extension().is_some_and(|e| e == EXTENSION)
}

impl Call {
    /// Writes the file into a folder; gives its path.
    ///
    /// # Errors
    /// A sentence, when it cannot be written.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, String> {
        let path = folder.join(format!("{}.{EXTENSION}", self.algorithm));
        let text = serde_json::to_string(self).map_err(|e| e.to_string())?;
        std::fs::write(&path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
        Ok(path)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// A sentence, when it cannot be read or is none of these.
    pub fn read(file: &Path) -> Result<Call, String> {
        let text = std::fs::read_to_string(file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        serde_json::from_str(&text).map_err(|e| format!("{} describes no product: {e}", file.display()))
    }

    /// The library's first factor (`n` by `k`), its second (`k` by `m`) and its result (`n` by `m`), column by column; `None`
    /// where one of them is not made of lines of neighbouring elements that do not overlap.
    pub fn by_columns(&self) -> Option<[ByColumns; 3]> {
        let (m, n, k) = (self.m, self.n, self.k);
        let first = ByColumns::of(&self.b, (n, self.b.column), (k, self.b.row))?;
        let second = ByColumns::of(&self.a, (k, self.a.column), (m, self.a.row))?;
        let result = ByColumns::of(&self.c, (n, self.c.column), (m, self.c.row)).filter(|c| !c.transposed)?;
        Some([first, second, result])
    }
}

/// A matrix as it is stored column by column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByColumns {
    /// Type of its elements.
    pub element: Element,
    /// Rows as stored: neighbours in memory.
    pub rows: u64,
    /// Columns as stored.
    pub columns: u64,
    /// From one column to the next, at least `rows`.
    pub leading: i64,
    /// From one matrix of the batch to the next.
    pub batch: i64,
    /// True where the transpose of what is stored is meant.
    pub transposed: bool,
}

impl ByColumns {
    /// A matrix with so many rows and columns, each with its stride.
    fn of(matrix: &Matrix, rows: (u64, i64), columns: (u64, i64)) -> Option<ByColumns> {
        let lines = |(rows, row): (u64, i64), (columns, column): (u64, i64)| {
            let leading = if columns == 1 { rows as i64 } else { column };
            ((row == 1 || rows == 1) && leading >= rows as i64).then_some((rows, columns, leading))
        };
        let plain = lines(rows, columns).map(|found| (found, false));
        let ((rows, columns, leading), transposed) =
            plain.or_else(|| lines(columns, rows).map(|found| (found, true)))?;
        Some(ByColumns { element: matrix.element, rows, columns, leading, batch: matrix.batch, transposed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(row: i64, column: i64, batch: i64) -> Matrix {
        Matrix { element: Element::Float32, row, column, batch }
    }

    /// What the library is documented to compute: column-major `op(first) * op(second)`, matrix by matrix.
    fn library(call: &Call, a: &[f64], b: &[f64], c: &mut [f64]) {
        let [first, second, result] = call.by_columns().expect("matrices of lines");
        let at = |x: &ByColumns, (i, j): (u64, u64), batch: u64| {
            let (row, column) = if x.transposed { (j, i) } else { (i, j) };
            assert!(row < x.rows && column < x.columns && x.leading >= x.rows as i64);
            (batch as i64 * x.batch + column as i64 * x.leading + row as i64) as usize
        };
        for (batch, i, j) in
            (0..call.batch).flat_map(|p| (0..call.n).flat_map(move |i| (0..call.m).map(move |j| (p, i, j))))
        {
            let term = |k| b[at(&first, (i, k), batch)] * a[at(&second, (k, j), batch)];
            c[at(&result, (i, j), batch)] = (0..call.k).map(term).sum();
        }
    }

    fn plain(call: &Call, a: &[f64], b: &[f64], c: &mut [f64]) {
        let at =
            |x: &Matrix, i: u64, j: u64, p: u64| (i as i64 * x.row + j as i64 * x.column + p as i64 * x.batch) as usize;
        for (p, i, j) in
            (0..call.batch).flat_map(|p| (0..call.m).flat_map(move |i| (0..call.n).map(move |j| (p, i, j))))
        {
            let term = |k| a[at(&call.a, i, k, p)] * b[at(&call.b, k, j, p)];
            c[at(&call.c, i, j, p)] = (0..call.k).map(term).sum();
        }
    }

    #[test]
    fn every_layout_gives_the_product() {
        for [batch, m, n, k] in [[1, 3, 5, 4], [2, 3, 5, 4], [2, 1, 5, 4], [3, 4, 1, 2], [2, 3, 4, 1], [1, 1, 1, 1]] {
            let (size_a, size_b, size_c) = (m * (k + 2), k * (n + 3), m * (n + 1));
            for (left, right) in [(false, false), (false, true), (true, false), (true, true)] {
                let a = if left { matrix(1, m, size_a) } else { matrix(k + 2, 1, size_a) };
                // A right factor that all products share.
                let b = if right { matrix(1, k, 0) } else { matrix(n + 3, 1, 0) };
                let c = matrix(n + 1, 1, size_c);
                let [batch, m, n, k] = [batch, m, n, k].map(|x| x as u64);
                let call = Call { batch, m, n, k, a, b, c, algorithm: 0, library: None };
                let values =
                    |len: i64, step: usize| (0..len as usize).map(|i| (i * step % 11) as f64).collect::<Vec<_>>();
                let (x, y) = (values(size_a * batch as i64, 7), values(size_b, 3));
                let mut got = vec![0.0; (size_c * batch as i64) as usize];
                let mut want = got.clone();
                library(&call, &x, &y, &mut got);
                plain(&call, &x, &y, &mut want);
                assert_eq!(got, want, "{call:?}");
            }
        }
    }

    #[test]
    fn what_has_no_lines_is_refused_and_files_read_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let c = matrix(5, 1, 0);
        let call =
            Call { batch: 1, m: 3, n: 5, k: 4, a: matrix(8, 2, 0), b: matrix(5, 1, 0), c, algorithm: 2, library: None };
        assert_eq!(call.by_columns(), None, "every second element");
        assert_eq!(Call { a: matrix(2, 1, 0), ..call.clone() }.by_columns(), None, "rows that overlap");
        assert_eq!(
            Call { a: matrix(4, 1, 0), c: matrix(1, 3, 0), ..call.clone() }.by_columns(),
            None,
            "a result by columns"
        );
        let path = call.write(folder.path()).expect("written");
        assert!(is_call(&path) && !is_call(Path::new("x.cubin")));
        assert_eq!(Call::read(&path), Ok(call));
    }
}
