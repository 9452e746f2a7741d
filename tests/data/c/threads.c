// Runs the parts of each launch on threads of its own and says whether that is what the plain function gives.
#include "kernels.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1000, THREADS = 3 };

struct work {
    pthread_t thread;
    size_t launch;
    int64_t begin, end;
    const float *a;
    float *b;
    void *workspace;
    int error;
};

static void *part(void *of)
{
    struct work *w = of;
    w->error = kernels_centred_cpu_part(w->launch, w->begin, w->end, w->a, w->b, 2.0f, N, w->workspace);
    return NULL;
}

int main(void)
{
    static float a[5 * N], want[5 * N], got[5 * N];
    void *workspace = malloc(kernels_centred_cpu_workspace_bytes(N) + 1);
    for (size_t i = 0; i < 5 * N; ++i)
        a[i] = (float)(i % 7);
    if (kernels_centred_cpu(a, want, 2.0f, N, workspace) != 0)
        return 1;
    int64_t grid;
    size_t launch = 0;
    for (; (grid = kernels_centred_cpu_grid(launch, N)) >= 0; ++launch) {
        struct work work[THREADS];
        for (int t = 0; t < THREADS; ++t) {
            work[t] = (struct work){.launch = launch, .begin = grid * t / THREADS, .end = grid * (t + 1) / THREADS,
                .a = a, .b = got, .workspace = workspace};
            if (pthread_create(&work[t].thread, NULL, part, &work[t]) != 0)
                return 2;
        }
        for (int t = 0; t < THREADS; ++t)
            if (pthread_join(work[t].thread, NULL) != 0 || work[t].error != 0)
                return 3;
    }
    if (memcmp(want, got, sizeof want) != 0)
        return 4;
    // What is no launch, block or workspace.
    if (kernels_centred_cpu_part(launch, 0, 0, a, got, 2.0f, N, workspace) != 1)
        return 5;
    if (kernels_centred_cpu_part(0, 0, kernels_centred_cpu_grid(0, N) + 1, a, got, 2.0f, N, workspace) != 1)
        return 6;
    if (kernels_centred_cpu_workspace_bytes(N) > 0 && kernels_centred_cpu(a, got, 2.0f, N, NULL) != 1)
        return 7;
    printf("%zu launches, %zu bytes\n", launch, kernels_centred_cpu_workspace_bytes(N));
    free(workspace);
    return 0;
}
