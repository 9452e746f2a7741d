
static int dl_launch(const daylight_@NAME@ *kernels, int function, const unsigned *grid, const unsigned *block, CUstream stream,
    void **args)
{
    return kernels->driver.launch(kernels->functions[function], grid[0], grid[1], grid[2], block[0], block[1], block[2],
        (unsigned)dl_functions[function].shared_bytes, stream, args, NULL);
}
