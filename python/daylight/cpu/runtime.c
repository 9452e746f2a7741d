// Runs the grid of a kernel on threads, and says what the processor has. C11 and POSIX threads.
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// A kernel runs the blocks from begin to end of its grid.
typedef void dl_kernel(void *const *buffers, const long long *scalars, long long begin, long long end);

struct dl_work {
    dl_kernel *kernel;
    void *const *buffers;
    const long long *scalars;
    int64_t grid, pieces;
    _Atomic int64_t next;
};

// Where piece i begins.
static long long dl_cut(const struct dl_work *w, int64_t i)
{
    // Neither product leaves 64 bits: pieces are not more than the grid.
    int64_t quotient = w->grid / w->pieces, rest = w->grid % w->pieces;
    return quotient * i + rest * i / w->pieces;
}

static void *dl_take(void *work)
{
    struct dl_work *w = work;
    for (int64_t i; (i = atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed)) < w->pieces;)
        w->kernel(w->buffers, w->scalars, dl_cut(w, i), dl_cut(w, i + 1));
    return NULL;
}

// Runs a grid on so many threads, the caller's among them; with those that could be started where not all could. Gives 0,
// or 1 where there is no memory.
int dl_run_grid(dl_kernel *kernel, void *const *buffers, const long long *scalars, int64_t grid, int64_t threads)
{
    // Pieces per thread, so that one that falls behind loses little.
    enum { PIECES = 4, MOST = 1024 };
    threads = threads > MOST ? MOST : threads;
    threads = threads > grid ? grid : threads;
    if (threads <= 1) {
        kernel(buffers, scalars, 0, grid);
        return 0;
    }
    struct dl_work work = {kernel, buffers, scalars, grid, threads * PIECES < grid ? threads * PIECES : grid, 0};
    pthread_t *started = malloc((size_t)threads * sizeof *started);
    if (started == NULL)
        return 1;
    int64_t count = 0;
    while (count < threads - 1 && pthread_create(&started[count], NULL, dl_take, &work) == 0)
        ++count;
    dl_take(&work);
    for (int64_t i = 0; i < count; ++i)
        pthread_join(started[i], NULL);
    free(started);
    return 0;
}

// True where this processor has a level.
int dl_has_level(const char *level)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    int v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("ssse3");
    int v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
        __builtin_cpu_supports("fma");
    int v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (strcmp(level, "x86-64-v2") == 0)
        return v2;
    if (strcmp(level, "x86-64-v3") == 0)
        return v3;
    return strcmp(level, "x86-64-v4") == 0 && v4;
#elif defined(__aarch64__)
    return strcmp(level, "aarch64") == 0;
#else
    (void)level;
    return 0;
#endif
}
