// Launches each function of the package and says what came of it.
#include "kernels.h"

#include <stdio.h>

static void says(const char *what, int error)
{
    printf("-> %s: %d\n", what, error);
}

int main(void)
{
    daylight_kernels *k = NULL;
    int error = daylight_kernels_load(&k);
    says("load", error);
    if (error != 0)
        return k != NULL;
    CUstream s = (CUstream)(void *)0x77;
    const CUdeviceptr a = 0x1000, b = 0x2000, c = 0x3000, w = 0x4000;
    says("scaled", kernels_scaled(k, s, a, b, 0.5f, 0));
    for (size_t n = 7; n <= 9; ++n)
        says("sums", kernels_sums(k, s, a, b, n, 0));
    says("sums above all", kernels_sums(k, s, a, b, 100000, 0));
    says("sums of none", kernels_sums(k, s, a, b, 0, 0));
    says("sums of too many", kernels_sums(k, s, a, b, (size_t)1 << 31, 0));
    says("sums at an odd address", kernels_sums(k, s, a + 4, b, 8, 0));
    says("sums of no package", kernels_sums(NULL, s, a, b, 8, 0));
    printf("total needs %zu bytes, sums %zu\n", kernels_total_workspace_bytes(k), kernels_sums_workspace_bytes(k, 8));
    says("total", kernels_total(k, s, a, b, w));
    says("total without a workspace", kernels_total(k, s, a, b, 0));
    says("product", kernels_product_2(k, s, a, b, c, 0));
    says("shares", kernels_shares(k, s, a, b, 0));
    daylight_kernels_unload(k);
    daylight_kernels_unload(NULL);
    return 0;
}
