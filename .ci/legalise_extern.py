"""Functions for `legalise_check.py` that no relax operator becomes: te expressions, and functions that TVM ships."""
from tvm import te, topi
from tvm.relax.frontend.nn.llm import _page_kernels as page_kernels
from tvm.relax.frontend.nn.llm.position_embedding import llama_rope_with_position_map


def tensor(shape, dtype="float32"):
    return tuple(shape), dtype


def extern():
    """Operators that TVM writes as loops in one block, or as blocks of its own: scans, searches, scatters."""
    f32, f16, i32 = "float32", "float16", "int32"
    for axis in (0, 1):
        for exclusive in (False, True):
            def sums(x, axis=axis, exclusive=exclusive):
                return x.cumsum(axis) - (x if exclusive else 0)
            yield (f"cumsum_{axis}{exclusive}", [tensor((9, 33))],
                   lambda x, a=axis, e=exclusive: topi.cumsum(x, a, exclusive=e), sums)
        yield f"cumprod_{axis}", [tensor((9, 33))], lambda x, a=axis: topi.cumprod(x, a), lambda x, a=axis: x.cumprod(a)
        yield f"cumsum_{axis}_symbolic", [tensor(("n", "m"))], lambda x, a=axis: topi.cumsum(x, a), None
    yield "cumsum_all", [tensor((4, 9, 7), i32)], lambda x: topi.cumsum(x), lambda x: x.ravel().cumsum()
    yield "cumsum_wide", [tensor((4, 300), f16)], lambda x: topi.cumsum(x, 1, dtype=f32), None
    for right in (False, True):
        yield f"searchsorted_{right}", [tensor((30,)), tensor((5, 7))], lambda a, v, r=right: topi.searchsorted(a, v, r), None
        yield (f"searchsorted_rows_{right}", [tensor((5, 30)), tensor((5, 7))],
               lambda a, v, r=right: topi.searchsorted(a, v, r, i32), None)
    yield "searchsorted_symbolic", [tensor(("n",)), tensor(("m",))], lambda a, v: topi.searchsorted(a, v), None
    yield "sparse_to_dense", [tensor((5, 2), i32), tensor((5,))], lambda i, v: topi.sparse_to_dense(i, (20, 9), v, 0.0), None
    for name in ("max", "avg"):
        yield (f"adaptive_{name}_symbolic", [tensor((1, 5, "h", "w"))],
               lambda x, n=name: topi.nn.adaptive_pool(x, (4, 3), n), None)


def build_extern(size, tensors, expression):
    """The tensor function of a te expression; `size` gives the extent of a number or a name."""
    given = [te.placeholder([size(n) for n in s], d, name=f"p{i}") for i, (s, d) in enumerate(tensors)]
    return te.create_prim_func([*given, expression(*given)])


def pages():
    """Functions of a cache of keys and values in pages, as TVM's language models call them."""
    for dtype in ("float16", "bfloat16"):
        yield f"append_{dtype}", page_kernels._kv_cache_transpose_append(8, 64, dtype)
        yield f"append_latent_{dtype}", page_kernels._kv_cache_transpose_append_mla(576, dtype)
        yield f"look_at_{dtype}", page_kernels._kv_cache_debug_get_kv(4, 8, 64, dtype)
        yield f"rope_{dtype}", llama_rope_with_position_map(10000, 1.0, 64, 8, 4, dtype, {})
