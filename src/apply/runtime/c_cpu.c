
// A kernel runs the blocks from begin to end of its grid.
typedef void dl_kernel(void *const *buffers, const long long *scalars, long long begin, long long end);

// What one launch runs.
struct dl_step {
    dl_kernel *kernel;
    void *buffers[@BUFFERS@];
    long long scalars[@SCALARS@];
    int64_t grid;
};

// There is no launch of that number.
enum { DL_NO_LAUNCH = -1 };

static int dl_run(const struct dl_step *step, int64_t begin, int64_t end)
{
    if (begin < 0 || end > step->grid || begin > end)
        return DL_INVALID_VALUE;
    step->kernel(step->buffers, step->scalars, begin, end);
    return 0;
}
