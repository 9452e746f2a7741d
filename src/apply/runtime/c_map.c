
// How boxes of a tensor are found in device memory: arguments of cuTensorMapEncodeTiled, innermost dimension first.
struct dl_tiles {
    int data_type;
    uint32_t rank;
    uint64_t dims[5], strides_bytes[5];
    uint32_t box[5], elem_strides[5];
    int swizzle, l2_promotion;
};

// The map of the tensor at a device address, as a kernel takes it.
static int dl_encode(const daylight_@NAME@ *kernels, struct dl_tensor_map *map, CUdeviceptr at, const struct dl_tiles *tiles)
{
    // CU_TENSOR_MAP_INTERLEAVE_NONE and CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE.
    enum { INTERLEAVE_NONE = 0, OOB_FILL_NONE = 0 };
    if (kernels->driver.encode_tiled == NULL)
        return DL_NOT_SUPPORTED;
    return kernels->driver.encode_tiled(map, tiles->data_type, tiles->rank, (void *)(uintptr_t)at, tiles->dims,
        tiles->strides_bytes, tiles->box, tiles->elem_strides, INTERLEAVE_NONE, tiles->swizzle, tiles->l2_promotion,
        OOB_FILL_NONE);
}
