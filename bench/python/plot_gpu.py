#!/usr/bin/env python3
"""Curves over H from what bench_gpu --quick prints; the standard library only.

    plot_gpu.py problems     the problems of the plot, one a line
    plot_gpu.py smooth       those of the smoothness test
    plot_gpu.py draw FILE    writes an SVG of the results on standard input: a panel for each N
    plot_gpu.py check        of the results on standard input: time(H) over time(H rounded up to a
                             multiple of 64)

So: B="bench/bench_gpu --quick"; P=$(bench/python/plot_gpu.py problems)
    { $B ours $P; $B cudnn $P; } | bench/python/plot_gpu.py draw doc/gpu.svg
    $B ours $(bench/python/plot_gpu.py smooth) | bench/python/plot_gpu.py check
"""
import math
import re
import sys

ROWS = (1, 8, 32, 64, 128)
UNITS = (16, 32, 48, 64, 96, 128, 192, 256, 320, 384, 512, 640, 768, 896, 1024, 1280, 1536, 1792,
         2048, 2304, 2560)
LEAST, MOST, MULTIPLE, ALLOWED = 64, 1100, 64, 1.15


def rounded(units):
    return -(-units // MULTIPLE) * MULTIPLE


def problems():
    return ["lstm/bf16/infer/T100/N%d/I%d/H%d" % (n, h, h) for n in ROWS for h in UNITS]


def smooth():
    units = sorted(set(range(LEAST, MOST + 1, 4)) | {rounded(MOST)})
    return ["lstm/bf16/infer/T100/N20/I%d/H%d" % (h, h) for h in units]


def read(lines):
    """{series: {N: [(H, us), ...]}} with series ours, cuDNN eager, cuDNN graph."""
    curves = {}
    for line in lines:
        found = re.match(r"\S*/N(\d+)/\S*/H(\d+)\s+us/step (cuDNN )?eager\s+([-\d.]+)[^g]*graph\s+"
                         r"([-\d.]+)", line)
        if not found:
            continue
        n, h = int(found[1]), int(found[2])
        pairs = ([("cuDNN, eager", found[4]), ("cuDNN, graph", found[5])] if found[3] else
                 [("ecornn", found[5])])
        for name, us in pairs:
            if float(us) > 0:
                curves.setdefault(name, {}).setdefault(n, []).append((h, float(us)))
    return curves


# ---- the plot -----------------------------------------------------------------------------------

COLOUR = {"ecornn": "#c22", "cuDNN, graph": "#26c", "cuDNN, eager": "#999"}
WIDTH, HEIGHT, LEFT, TOP, GAP_X, GAP_Y, ACROSS = 270, 180, 40, 30, 45, 50, 3
X_TICKS, Y_TICKS = (16, 64, 256, 1024, 2560), (1, 2, 5, 10, 20, 50)
Y_LEAST, Y_MOST = 0.7, 60


def along(value, least, most, length):
    return length * math.log(value / least) / math.log(most / least)


def x_of(h):
    return along(h, UNITS[0], UNITS[-1], WIDTH)


def y_of(us):
    return HEIGHT - along(min(max(us, Y_LEAST), Y_MOST), Y_LEAST, Y_MOST, HEIGHT)


def panel(curves, n):
    yield '<rect width="%d" height="%d" fill="none" stroke="#000"/>' % (WIDTH, HEIGHT)
    yield '<text x="%d" y="-6" text-anchor="middle">N = %d</text>' % (WIDTH / 2, n)
    for h in X_TICKS:
        yield '<path d="M%.0f 0V%d" stroke="#ddd"/>' % (x_of(h), HEIGHT)
        yield '<text x="%.0f" y="%d" text-anchor="middle">%d</text>' % (x_of(h), HEIGHT + 14, h)
    for us in Y_TICKS:
        yield '<path d="M0 %.0fH%d" stroke="#ddd"/>' % (y_of(us), WIDTH)
        yield '<text x="-5" y="%.0f" text-anchor="end">%d</text>' % (y_of(us) + 4, us)
    for name, colour in COLOUR.items():
        points = " ".join("%.0f,%.0f" % (x_of(h), y_of(us))
                          for h, us in sorted(curves.get(name, {}).get(n, [])))
        yield ('<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>'
               % (points, colour))


def legend():
    yield "<text>LSTM, BF16, inference, T = 100, I = H:</text>"
    yield '<text y="16">microseconds a step over H</text>'
    for k, (name, colour) in enumerate(COLOUR.items()):
        yield '<path d="M0 %dh30" stroke="%s" stroke-width="2"/>' % (40 + 18 * k, colour)
        yield '<text x="38" y="%d">%s</text>' % (44 + 18 * k, name)


def draw(curves, path):
    panels = [panel(curves, n) for n in ROWS] + [legend()]
    step_x, step_y = WIDTH + GAP_X, HEIGHT + GAP_Y
    with open(path, "w", encoding="ascii") as file:
        file.write('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
                   'font-family="sans-serif" font-size="11">\n'
                   % (LEFT + ACROSS * step_x, TOP + 2 * step_y))
        file.write('<rect width="100%" height="100%" fill="#fff"/>\n')
        for k, lines in enumerate(panels):
            place = LEFT + k % ACROSS * step_x, TOP + k // ACROSS * step_y
            file.write('<g transform="translate(%d,%d)">\n%s\n</g>\n' % (*place, "\n".join(lines)))
        file.write("</svg>\n")


# ---- smoothness ---------------------------------------------------------------------------------

def check(curves):
    above = 0
    for n, points in sorted(curves.get("ecornn", {}).items()):
        time = dict(points)
        ratios = [(us / time[rounded(h)], h) for h, us in points if rounded(h) in time]
        if not ratios:
            continue
        beyond = sorted((r for r in ratios if r[0] > ALLOWED), reverse=True)
        print("N=%d: %d sizes, worst %.2f at H=%d, %d above %.2f" % (n, len(ratios), *max(ratios),
                                                                     len(beyond), ALLOWED))
        if beyond:
            print("  " + " ".join("H=%d:%.2f" % (h, ratio) for ratio, h in beyond[:20]))
        above += len(beyond)
    return above > 0


def main(words):
    if words == ["problems"] or words == ["smooth"]:
        print("\n".join(problems() if words == ["problems"] else smooth()))
    elif len(words) == 2 and words[0] == "draw":
        draw(read(sys.stdin), words[1])
    elif words == ["check"]:
        return check(read(sys.stdin))
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
