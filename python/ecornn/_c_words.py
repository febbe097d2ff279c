"""The C with which every exported file computes: products, and functions of one number.

They do what cpu/isa/tile.c and cpu/isa/vec_math.h do in the instruction set `plain`, in their order.
Loops have no branches, so that compilers can use vectors; and arrays are cleared by loops, because for
an initializer a compiler may call memset.
"""

from __future__ import annotations

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
    "v_sigmoid": (("v_abs", "v_reduced", "v_scale"), """\
static inline float v_sigmoid(float x)
{
    float shifted;
    const float y = -v_abs(x), r = v_reduced(-104 > y ? -104 : y, &shifted), r2 = r * r;
    const float even = r2 * 0x1.9984aap-4f + 1, odd = r2 * 0x1.10bd98p-7f + 0.5f;
    const float below = -r * odd + even, above = v_scale(r * odd + even, shifted);
    return (x < 0 ? above : below) / (below + above);
}
"""),
    "v_tanh": (("v_abs", "v_expm1"), """\
static inline float v_tanh(float x)
{
    float shifted;
    const float y = -2 * v_abs(x), reduced = v_expm1(-40 > y ? -40 : y, &shifted);
    const float power = v_float((v_bits(shifted) << 23) + 0x3f800000u);
    const float m = power * reduced + (power - 1);
    return v_float(v_bits(v_abs(m / (2 + m))) | (v_bits(x) & 0x80000000u));
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

# Sums of {n} units: their type, a weight as they take it, and how they end.
_SUMS = """\
    for (; units - u >= {n}; u += {n}) {{
        {type} sum[{n}];
        for (int j = 0; j < {n}; j++)
            sum[j] = 0;
        for (int k = 0; k < count; k++)
            for (int j = 0; j < {n}; j++)
                sum[j] += {of}[k] * {weight}w[k * units + u + j];
        for (int j = 0; j < {n}; j++)
            to[u + j] = from[u + j] + {end};
    }}
"""


def _sums(type: str, of: str, weight: str, end: str) -> str:
    return "".join(_SUMS.format(n=n, type=type, of=of, weight=weight, end=end) for n in (32, 4, 1))


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
/* to[units] = from[units] + {what}: {how}, to which `from` is added. */
static void {name}(float *to, const float *from, const float *x, {arguments}, int count,
                  int units)
{{
    int u = 0;
{first}{sums}}}
"""
# Products by the type of weights: the functions they need, and their text.
PRODUCTS = {
    "f32": (set(), _PRODUCT.format(
        name="product", what="x[count] times w [count][units]", arguments="const float *w", first="",
        how="each element is a sum in ascending k\n * from 0", sums=_sums("float", "x", "", "sum[j]"))),
    "int8-weights": (set(), _PRODUCT.format(
        name="product_8", what="x[count] times scale[units] w [count][units]", first="",
        arguments="const int8_t *w, const float *scale", how="each\n * element is a sum in ascending k from 0",
        sums=_sums("float", "x", "(float)", "sum[j] * scale[u + j]"))),
    "int8": ({"v_float"}, _ROW + _PRODUCT.format(
        name="product_8", what="x[count] as whole numbers times scale[units] w [count][units]",
        arguments="const int8_t *w, const float *scale", how="each\n * sum is exact",
        first="    int16_t row[MOST_COLUMNS];\n    const float x_scale = whole_row(row, x, count);\n",
        sums=_sums("int32_t", "row", "", "(float)sum[j] * (x_scale * scale[u + j])")))}


def functions(names: set[str]) -> str:
    """The text of some functions and of those they need."""
    needed, more = set(names), set(names)
    while more:
        more = {other for name in more for other in _FUNCTIONS[name][0]} - needed
        needed |= more
    return "\n".join(text for name, (_, text) in _FUNCTIONS.items() if name in needed)
