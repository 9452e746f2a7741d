
// Kernels for the CPU. Compiled and linked with -lm:
@COMPILE@//
// NAME_cpu runs a function on the thread that calls it. The other form is for threads of the caller's: NAME_cpu_grid says
// how many blocks a launch has, -1 after the last launch, and NAME_cpu_part runs the blocks from begin to end of one, in any
// order and on any threads at a time; those of a launch are done before the next one is begun. Nothing is allocated.
// The workspace holds NAME_cpu_workspace_bytes bytes, aligned to 8, and may be NULL where that is 0.
// Elements of float16 and bfloat16 are their bits.
