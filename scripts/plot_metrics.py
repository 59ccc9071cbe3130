#!/usr/bin/env python3
"""Draws metrics of a run over its steps, as SVG on standard output. Needs Python alone.

    scripts/plot_metrics.py METRICS.jsonl KEY[=LABEL]...

METRICS.jsonl is what a run writes to <project_name>/<experiment_name>.jsonl. Rows without a key are
left out of its line, so a metric of every twentieth step is a line through those.

    scripts/plot_metrics.py smollm2/grpo.jsonl critic/score/mean=training >plot.svg
"""
import html
import json
import math
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 320, 56, 16, 16, 40
COLORS = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e"]


def read(path, keys):
    """A list of (step, value) for each key."""
    lines = {key: [] for key in keys}
    try:
        with open(path, encoding="utf-8") as rows:
            for number, text in enumerate(rows, 1):
                row = json.loads(text)
                for key in keys:
                    if key in row["data"]:
                        lines[key].append((row["step"], row["data"][key]))
    except OSError as error:
        sys.exit(f"{path}: cannot be read: {error.strerror}")
    except (ValueError, KeyError, TypeError):
        sys.exit(f"{path}:{number}: is no row of metrics, an object with step and data")
    for key, points in lines.items():
        if not points:
            sys.exit(f"{path}: no row has {key}")
    return lines


def ticks(low, high, most=6):
    """Round numbers from `low` to `high`, about `most`."""
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(n * power for n in (1, 2, 5, 10) if n * power * most >= high - low)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]


def svg(lines, labels):
    points = [point for line in lines.values() for point in line]
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    low, high = min(0, *(y for _, y in points)), max(y for _, y in points)
    last, high = max(last, first + 1), max(high, low + 1e-9)
    x_of = lambda x: LEFT + (x - first) / (last - first) * (WIDTH - LEFT - RIGHT)
    y_of = lambda y: HEIGHT - BOTTOM - (y - low) / (high - low) * (HEIGHT - TOP - BOTTOM)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for y in ticks(low, high):
        out.append(f'<path d="M{LEFT} {y_of(y):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{y_of(y) + 4:.1f}" text-anchor="end">{y:.6g}</text>')
    for x in ticks(first, last):
        out.append(f'<text x="{x_of(x):.1f}" y="{HEIGHT - BOTTOM + 18}" '
                   f'text-anchor="middle">{x:.6g}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" '
               'text-anchor="middle">step</text>')
    for number, (key, line) in enumerate(lines.items()):
        color = COLORS[number % len(COLORS)]
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in line)
        out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        out.append(f'<text x="{LEFT + 10}" y="{TOP + 14 + 16 * number}" fill="{color}">'
                   f'{html.escape(labels[key])}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    labels = {}
    for text in sys.argv[2:]:
        key, _, label = text.partition("=")
        labels[key] = label or key
    sys.stdout.write(svg(read(sys.argv[1], list(labels)), labels))


if __name__ == "__main__":
    main()
