"""The C with which every exported file computes: products, and functions of one number.

They do what cpu/isa/tile.c and cpu/isa/vec_math.h do in the instruction set `plain`, in their order.
Loops have no branches, so that compilers can use vectors; and arrays are cleared by loops, because for
an initializer a compiler may call memset.
"""

from __future__ import annotations

# Names that no file may have: words of C, C++ and compilers, and headers, which the file's own would hide.
TAKEN = frozenset("""
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class
co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype
default delete do double dynamic_cast else enum explicit export extern false far float for friend goto huge
if import inline int interface long main module mutable namespace near new noexcept not not_eq nullptr
operator or or_eq private protected public register reinterpret_cast requires restrict return short signed
sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef
typeid typename typeof typeof_unqual union unsigned using virtual void volatile wchar_t while xor xor_eq
android arm hpux i386 linux mips pic sparc sun unix vax
assert complex ctype errno fenv inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic
stdbit stdbool stdckdint stddef stdint stdio stdlib stdnoreturn string strings tgmath threads time uchar unistd
wchar wctype EOF NULL
""".split())

# Values that are written as expressions.
EXPRESSIONS = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "div": "{} / {}", "neg": "-{}",
    "min": "{0} < {1} ? {0} : {1}", "max": "{0} > {1} ? {0} : {1}",
    "select": "{} > 0 ? {} : {}", "relu": "{0} < 0 ? 0 : {0}"}

# Functions: the others they need, and their text.
_FUNCTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "v_bits": ((), """\
static inline uint32_t v_bits(float x)
{
    const union { float number; uint32_t bits; } both = {.number = x};
    return both.bits;
}
"""),
    "v_float": ((), """\
static inline float v_float(uint32_t bits)
{
    const union { uint32_t bits; float number; } both = {.bits = bits};
    return both.number;
}
"""),
    "v_abs": (("v_bits", "v_float"), """\
static inline float v_abs(float x)
{
    return v_float(v_bits(x) & 0x7fffffffu);
}
"""),
    "v_sqrt": ((), """\
float sqrtf(float); /* of the C library */
static inline float v_sqrt(float x)
{
    return sqrtf(x);
}
"""),
    "v_reduced": ((), """\
/* x - n ln 2; n = *shifted - 0x1.8p23 is whole. */
static inline float v_reduced(float x, float *shifted)
{
    *shifted = x * 0x1.715476p+0f + 0x1.8p23f;
    const float n = *shifted - 0x1.8p23f, r = n * -0x1.62e4p-1f + x;
    return n * -0x1.7f7d1cp-20f + r;
}
"""),
    "v_expm1": (("v_reduced",), """\
/* exp(r) - 1 of r = x - n ln 2. */
static inline float v_expm1(float x, float *shifted)
{
    const float r = v_reduced(x, shifted), r2 = r * r;
    const float low = 0x1.5554b4p-3f * r + 0x1.fffffep-2f;
    const float high = 0x1.12253ep-7f * r + 0x1.5556f2p-5f;
    const float q = (0x1.6b9c4ap-10f * r2 + high) * r2 + low;
    return r2 * q + r;
}
"""),
    "v_scale": (("v_bits", "v_float"), """\
/* x * 2^n; shifted = n + 0x1.8p23. */
static inline float v_scale(float x, float shifted)
{
    const uint32_t n = v_bits(shifted) - 0x4b400000u, half = ((n + 1024) >> 1) - 512;
    return x * v_float((half + 127) << 23) * v_float((n - half + 127) << 23);
}
"""),
    "v_exp_above": (("v_expm1", "v_scale"), """\
/* exp(x) for -104 <= x <= 89. */
static inline float v_exp_above(float x)
{
    float shifted;
    const float m = v_expm1(x, &shifted);
    return v_scale(1 + m, shifted);
}
"""),
    "v_exp": (("v_exp_above",), """\
static inline float v_exp(float x)
{
    const float low = -104 > x ? -104 : x;
    return v_exp_above(89 < low ? 89 : low);
}
"""),
    "v_size": (("v_bits", "v_float"), """\
/* |x|, at most a number; a NaN becomes that number.  As integers, since for floats compilers make
 * branches. */
static inline float v_size(float x, float most)
{
    const int32_t size = (int32_t)(v_bits(x) & 0x7fffffffu), limit = (int32_t)v_bits(most);
    return v_float((uint32_t)(size < limit ? size : limit));
}
"""),
    "v_sigmoid": (("v_size", "v_reduced", "v_scale"), """\
static inline float v_sigmoid(float x)
{
    float shifted;
    const float r = v_reduced(-v_size(x, 104), &shifted), r2 = r * r;
    const float even = r2 * 0x1.9984aap-4f + 1, odd = r2 * 0x1.10bd98p-7f + 0.5f;
    const float below = -r * odd + even, above = v_scale(r * odd + even, shifted);
    const float upper = x >= 0 ? below : x; /* a NaN stays */
    return (x < 0 ? above : upper) / (below + above);
}
"""),
    "v_tanh": (("v_size", "v_expm1"), """\
static inline float v_tanh(float x)
{
    float shifted;
    const float reduced = v_expm1(-2 * v_size(x, 20), &shifted);
    const float power = v_float((v_bits(shifted) << 23) + 0x3f800000u);
    const float m = power * reduced + (power - 1), size = x == x ? m / (2 + m) : x;
    return v_float((v_bits(size) & 0x7fffffffu) | (v_bits(x) & 0x80000000u));
}
"""),
    "v_log": (("v_bits", "v_float"), """\
static inline float v_log(float x)
{
    const float normal = x < 0x1p-126f ? x * 0x1p24f : x;
    const int32_t k = (int32_t)((v_bits(normal) - 0x3f3504f3u + 0x80000000u) >> 23) - 256;
    const float n = (float)k + (x < 0x1p-126f ? -24.0f : 0.0f);
    const float f = v_float(v_bits(normal) - ((uint32_t)k << 23)) - 1, square = f * f;
    float p = -0x1.38ceb6p-4f;
    p = p * f + 0x1.056016p-3f;
    p = p * f + -0x1.0d81f6p-3f;
    p = p * f + 0x1.22d8fap-3f;
    p = p * f + -0x1.54728cp-3f;
    p = p * f + 0x1.99a01ep-3f;
    p = p * f + -0x1.000226p-2f;
    p = p * f + 0x1.555554p-2f;
    float low = n * 0x1.7f7d1cp-20f + square * f * p;
    low = square * -0.5f + low;
    const float infinity = v_float(0x7f800000u);
    const float other = x < 0 ? v_float(0x7fc00000u) : -infinity;
    const float finite = 0 < x ? n * 0x1.62e4p-1f + (f + low) : other;
    return x < infinity ? finite : x;
}
"""),
    "mean_of": ((), """\
static float mean_of(const double sum[16])
{
    double total = 0;
    for (int k = 0; k < 16; k++)
        total += sum[k];
    return (float)(total / HIDDEN);
}
"""),
}

_ROW = """\
/* Numbers that are whole, row[count], of x = scale * row, within 255 of each other; returns the scale,
 * which is NaN if a number is not finite. */
static float whole_row(int16_t *row, const float *x, int count)
{
    float least = 0, most = 0, odd = 0;
    for (int k = 0; k < count; k++) {
        least = x[k] < least ? x[k] : least;
        most = x[k] > most ? x[k] : most;
        odd = x[k] * 0 + odd;
    }
    const float scale = most / 255 - least / 255 + odd, factor = scale > 0x1p-100f ? 1 / scale : 0;
    const float shifted = -least * factor + 0x1.8p23f, zero = shifted - 0x1.8p23f;
    const int finite = scale < v_float(0x7f800000u);
    for (int k = 0; k < count; k++) {
        const float above = x[k] * factor > -zero ? x[k] * factor : -zero;
        const float at = (above < 255 - zero ? above : 255 - zero) + 0x1.8p23f;
        row[k] = finite ? (int16_t)(at - 0x1.8p23f) : 0;
    }
    return !finite ? v_float(0x7fc00000u) : factor > 0 ? scale : 0;
}
"""
_PRODUCT = """\
/* to[units] = from[units] + x[count] times {w} [count][all], {n} units at a time: each element is
 * {how}, to which `from` is added. */
static void {name}_{n}(float *to, const float *from, const float *x, {arguments}, int count, int all,
    int units)
{{{first}
    for (int u = 0; u < units; u += {n}) {{
        {type} sum[{n}];
        for (int j = 0; j < {n}; j++)
            sum[j] = 0;
        for (int k = 0; k < count; k++)
            for (int j = 0; j < {n}; j++)
                sum[j] += {x}[k] * {weight}w[k * all + u + j];
        for (int j = 0; j < {n}; j++)
            to[u + j] = from[u + j] + {end};
    }}
}}
"""
_CHAIN = "a sum in ascending k from 0"
_BYTES = {"w": "scale[units] w", "arguments": "const int8_t *w, const float *scale"}
_KINDS: dict[str, dict[str, str]] = {
    "f32": {"w": "w", "arguments": "const float *w", "how": _CHAIN, "type": "float", "x": "x",
            "weight": "", "end": "sum[j]", "first": ""},
    "int8-weights": {**_BYTES, "how": _CHAIN, "type": "float", "x": "x", "weight": "(float)",
                     "end": "sum[j] * scale[u + j]", "first": ""},
    "int8": {**_BYTES, "how": "an exact sum of whole numbers", "type": "int32_t", "x": "row", "weight": "",
             "end": "(float)sum[j] * (x_scale * scale[u + j])",
             "first": "\n    int16_t row[MOST_COLUMNS];"
                      "\n    const float x_scale = whole_row(row, x, count);"}}


def tiles(units: int) -> list[tuple[int, int]]:
    """How a product is cut: the units of a call, and of these at a time, as a divisor that fills
    vectors, since constant numbers of sums stay in registers."""
    most = 64
    found = max((n for n in range(1, most + 1) if units % n == 0),
                key=lambda n: (n >= 12, n % 8 == 0, n % 4 == 0, n))
    if found >= 12 or units <= most:
        return [(units, found if found >= 12 else units)]
    return [(units // most * most, most), (units % most, units % most)]


def product(kind: str, n: int) -> tuple[str, str]:
    """The name and the text of a product by weights of a type, n units at a time."""
    name = "product" if kind == "f32" else "product_8"
    return f"{name}_{n}", _PRODUCT.format(n=n, name=name, **_KINDS[kind])


def products(used: set[tuple[str, int]]) -> str:
    """The text of all products that a file uses, by type and units at a time."""
    texts = [_ROW] if any(kind == "int8" for kind, _ in used) else []
    return "\n".join(texts + [product(kind, n)[1] for kind, n in sorted(used)])


def functions(names: set[str]) -> str:
    """The text of some functions and of those they need."""
    needed, more = set(names), set(names)
    while more:
        more = {other for name in more for other in _FUNCTIONS[name][0]} - needed
        needed |= more
    return "\n".join(text for name, (_, text) in _FUNCTIONS.items() if name in needed)
