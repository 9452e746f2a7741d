
static int dl_zero(const daylight_@NAME@ *kernels, CUdeviceptr at, int64_t bytes, CUstream stream)
{
    return kernels->driver.set_bytes(at, 0, (size_t)bytes, stream);
}
