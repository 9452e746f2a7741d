//! A tensor map as the manifest has it.

use crate::ir::{DType, MapSwizzle, TensorMap};
use serde::{Deserialize, Serialize};

/// A tensor map of a tensor parameter. All lists have the innermost dimension first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlanTensorMap {
    /// Position of the tensor in `params`.
    pub param: usize,
    /// Element type.
    #[serde(with = "dtype_text")]
    pub dtype: DType,
    /// Elements along each dimension.
    pub dims: Vec<u64>,
    /// Bytes from one index to the next, for all dimensions but the innermost.
    pub strides_bytes: Vec<u64>,
    /// Elements of a box along each dimension.
    #[serde(rename = "box")]
    pub box_dims: Vec<u32>,
    /// Elements from one that is taken to the next along each dimension.
    pub elem_strides: Vec<u32>,
    /// Bytes of the rows within which 16-byte chunks are permuted: 0, 32, 64 or 128.
    pub swizzle: u32,
    /// How channels are interleaved.
    pub interleave: Interleave,
    /// Bytes that the L2 fetches at once: 0, 64, 128 or 256.
    pub l2: u32,
    /// What elements outside the tensor are read as.
    pub oob: OutOfBounds,
}

/// How channels are interleaved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interleave {
    /// Not at all.
    None,
}

/// What elements outside a tensor are read as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutOfBounds {
    /// Zero.
    Zero,
}

impl PlanTensorMap {
    /// The map of the parameter at that position.
    pub fn of(map: &TensorMap, param: usize) -> PlanTensorMap {
        let words = |list: &[i64]| list.iter().map(|n| *n as u64).collect();
        let short = |list: &[i64]| list.iter().map(|n| *n as u32).collect();
        PlanTensorMap {
            param,
            dtype: map.dtype,
            dims: words(&map.dims),
            strides_bytes: words(&map.strides_bytes),
            box_dims: short(&map.box_dims),
            elem_strides: short(&map.elem_strides),
            swizzle: map.swizzle.span() as u32,
            interleave: Interleave::None,
            l2: map.l2,
            oob: OutOfBounds::Zero,
        }
    }

    /// How boxes are permuted.
    ///
    /// # Errors
    /// Where there is no swizzle of that span.
    pub fn map_swizzle(&self) -> Result<MapSwizzle, String> {
        let found = MapSwizzle::of_span(i64::from(self.swizzle));
        found.ok_or_else(|| format!("a tensor map is swizzled within 0, 32, 64 or 128 bytes, not {}", self.swizzle))
    }
}

/// A dtype as its TVM name.
pub(crate) mod dtype_text {
    use crate::ir::DType;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(d: &DType, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(d)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<DType, D::Error> {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_the_manifest_form_and_reads_back() {
        let map = TensorMap {
            name: "m".into(),
            buffer: "p0".into(),
            dtype: DType::F16,
            dims: vec![128, 64],
            strides_bytes: vec![256],
            box_dims: vec![64, 16],
            elem_strides: vec![1, 1],
            swizzle: MapSwizzle::B128,
            l2: 128,
        };
        let plan = PlanTensorMap::of(&map, 2);
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"param":2,"dtype":"float16","dims":[128,64],"strides_bytes":[256],"box":[64,16],"#,
                r#""elem_strides":[1,1],"swizzle":128,"interleave":"none","l2":128,"oob":"zero"}"#
            )
        );
        assert_eq!(serde_json::from_str::<PlanTensorMap>(&text).unwrap(), plan);
        assert_eq!(plan.map_swizzle(), Ok(MapSwizzle::B128));
    }
}
