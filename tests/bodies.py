"""Small kernels of many shapes, beyond the catalogue: one for each thing that once went wrong.

A row is axes with their tiles (0 for whole), the reduction axes, operands as ``name: "axes | dtype
| memory space"``, and a body. Outputs stand behind an empty name.
"""

from __future__ import annotations

from typing import Any

F, H, B, I = "float32", "bfloat16", "int8", "int32"  # noqa: E741


def spec(
    name: str,
    axes: dict[str, int],
    reduction: str,
    inputs: dict[str, str],
    outputs: dict[str, str],
    body: dict[str, Any],
    scratch: dict[str, str] | None = None,
) -> dict[str, Any]:
    """A whole spec from a row of the table."""

    def operands(rows: dict[str, str]) -> dict[str, Any]:
        made = {}
        for key, row in rows.items():
            fields = row.split("|")
            made[key] = {"axes": fields[0].split(), "dtype": fields[1].strip()}
            if len(fields) > 2:
                made[key]["memory_space"] = fields[2].strip()
        return made

    sizes = {axis: 2 if tile == 1 else (tile or 128) + 37 for axis, tile in axes.items()}
    return {
        "kernelgen": 1,
        "name": name,
        "doc": f"The body of {name}.",
        "axes": {axis: {"tile": tile} if tile else {} for axis, tile in axes.items()},
        "grid": [axis for axis, tile in axes.items() if tile],
        "reduction": reduction.split(),
        "inputs": operands(inputs),
        "outputs": operands(outputs),
        "scratch": operands(scratch or {}),
        "body": body,
        "cases": [sizes],
        "targets": ["v5e", "v6e"],
    }


MN = {"m": 8, "n": 128}
X = {"x": f"m n|{F}"}
ROW, ACC = {"o": f"m|{F}"}, {"acc": f"m|{F}"}

TABLE: dict[str, dict[str, Any]] = {
    row["name"]: row
    for row in (
        spec("scalar_updates", MN, "", {**X, "s": f"|{F}|SMEM"}, {"o": f"m n|{F}"},
             {"step": ["t = x", "t += 3", "t *= s", "t -= size(n)", "o = t"]}, {"t": f"m n|{F}"}),
        spec("mixed_updates", MN, "", {**X, "y": f"m n|{B}"}, {"o": f"m n|{F}", "p": f"m n|{I}"},
             {"step": ["t = y", "t *= x", "o = t", "u = y", "u += x", "p = u"]},
             {"t": f"m n|{B}", "u": f"m n|{I}"}),
        spec("narrow_cast_in_a_tail", MN, "n", {"x": f"m n|{I}"}, {"o": f"m|{I}"},
             {"init": "a = -2147483648",
              "step": "a = maximum(a, max(cast(minimum(abs(x), 5) - 100, int8), n))",
              "finish": "o = a"}, {"a": f"m|{I}"}),
        spec("leading_axis_reduced", {"b": 8, "c": 128, "a": 0}, "", {"x": f"a b c|{F}"},
             {"o": f"b c|{F}"}, {"step": "o = sum(x, a)"}),
        spec("two_leading_axes_reduced", {"c": 128, "a": 8, "b": 8}, "a b", {"x": f"a b c|{F}"},
             {"o": f"c|{F}"}, {"init": "acc = 0", "step": "acc += sum(x, a, b)",
              "finish": "o = acc"},
             {"acc": f"c|{F}"}),
        spec("pairwise_distance", {"m": 8, "n": 128, "k": 128}, "k",
             {"a": f"m k|{F}", "b": f"n k|{F}"}, {"o": f"m n|{F}"},
             {"init": "acc = 0", "step": "acc += sum(abs(a - b), k)", "finish": "o = acc"},
             {"acc": f"m n|{F}"}),
        spec("scan_and_its_last_state", {"m": 8, "t": 128}, "t", {"x": f"m t|{F}"},
             {"o": f"m t|{F}", "p": f"m|{F}"},
             {"init": "st = 0", "step": ["y = cumsum(x, t) + st", "o = y", "st = last(y, t)"],
              "finish": "p = st"}, {"st": f"m|{F}"}),
        spec("decay_of_a_row", {"m": 8, "t": 128}, "t", {"a": f"m|{F}", "x": f"m t|{F}"},
             {"o": f"m|{F}"},
             {"init": "st = 0", "step": ["y = linear_scan(tanh(a), x, t, st)", "st = last(y, t)"],
              "finish": "o = st"}, {"st": f"m|{F}"}),
        spec("last_of_an_input", {"m": 8, "t": 128}, "t", {"x": f"m t|{F}"}, {"o": f"m|{F}"},
             {"step": "st = last(x, t)", "finish": "o = st"}, {"st": f"m|{F}"}),
        spec("local_in_init", MN, "n", X, ROW,
             {"init": ["t = 1 + 1", "acc = t * 2"], "step": "acc += sum(x, n)",
              "finish": "o = acc"},
             ACC),
        spec("rolls_by_nothing", {"m": 8, "n": 0}, "", X, {"o": f"m n|{F}"},
             {"step": "o = roll(x, 0, n) + roll(x, size(n), n) * 2 + roll(x, -1, n)"}),
        spec("boolean_transposed", {"m": 128, "n": 128}, "", {"x": f"m n|{B}"}, {"p": "n m|bool"},
             {"step": "p = x * 2 == x"}),
        spec("functions_of_numbers", MN, "", X, {"o": f"m n|{F}"},
             {"step": "o = x * sigmoid(3) + erf(size(n)) + sqrt(size(m))"}),
        spec("column_inside_a_sum", MN, "", {**X, "z": f"m|{F}"}, {"o": f"m n|{F}"},
             {"step": "o = x + exp(2 * z)"}),
        spec("column_through_a_local", MN, "", {**X, "z": f"m|{F}"}, {"o": f"m n|{F}"},
             {"step": ["w = 2 * z", "o = x + w"]}),
        spec("column_into_a_block", MN, "", {**X, "z": f"m|{F}"}, {"o": f"m n|{F}"},
             {"step": ["t = x", "t += 2 * z", "o = t"]}, {"t": f"m n|{F}"}),
        spec("decayed_sum", MN, "n", X, ROW,
             {"init": "acc = 0", "step": "acc = 1.0 * acc + sum(x, n)", "finish": "o = acc"}, ACC),
        spec("picked_by_position", MN, "n", {**X, "y": f"m|{I}"}, ROW,
             {"init": "acc = 0", "step": "acc += sum(where(index(n) == y, x, 0), n)",
              "finish": "o = acc"}, ACC),
        spec("masked_mean", MN, "n", {**X, "keep": "m n|bool"}, ROW,
             {"init": ["acc = 0", "count = 0"],
              "step": ["acc += sum(where(keep, x, 0), n)", "count += sum(keep, n)"],
              "finish": "o = acc / maximum(count, 1)"}, {**ACC, "count": f"m|{I}"}),
        spec("variance_over_two_axes", {"b": 1, "m": 8, "n": 128}, "m n", {"x": f"b m n|{F}"},
             {"o": f"b|{F}"},
             {"init": ["s1 = 0", "s2 = 0"],
              "step": ["s1 += sum(x, m, n)", "s2 += sum(x * x, m, n)"],
              "finish": ["mu = s1 / (size(m) * size(n))",
                         "o = s2 / (size(m) * size(n)) - mu * mu"]},
             {"s1": f"b|{F}", "s2": f"b|{F}"}),
        spec("scalar_result", MN, "m n", X, {"o": f"|{F}|SMEM"},
             {"init": "acc = 0", "step": "acc += sum(x * x, m, n)", "finish": "o = sqrt(acc)"},
             {"acc": f"|{F}|SMEM"}),
        spec("scale_of_a_batch", {"b": 1, **MN}, "", {"x": f"b m n|{F}", "s": f"b|{F}|SMEM"},
             {"o": f"b m n|{F}"}, {"step": "o = x * sigmoid(s[b])"}),
        spec("vector_times_matrix", {"n": 128, "k": 128}, "k", {"a": f"k n|{H}", "v": f"k|{H}"},
             {"o": f"n|{F}"}, {"init": "acc = 0", "step": "acc += dot(v, a, k)",
              "finish": "o = acc"},
             {"acc": f"n|{F}"}),
        spec("batched_vector_product", {"b": 8, "m": 128, "k": 128}, "k",
             {"a": f"b m k|{F}", "v": f"b k|{F}"}, {"o": f"b m|{F}"},
             {"init": "acc = 0", "step": "acc += dot(a, v, k)", "finish": "o = acc"},
             {"acc": f"b m|{F}"}),
        spec("blocks_of_matrices", {"b": 4, "m": 8, "n": 128, "k": 128}, "k",
             {"x": f"b m k|{F}", "y": f"b k n|{F}"}, {"o": f"b m n|{F}"},
             {"init": "acc = 0", "step": "acc += dot(x, y, k)", "finish": "o = acc"},
             {"acc": f"b m n|{F}"}),
        spec("product_both_transposed", {"m": 128, "n": 128, "k": 128}, "k",
             {"a": f"k m|{H}", "b": f"n k|{F}"}, {"o": f"n m|{F}"},
             {"init": "acc = 0", "step": "acc += dot(a, b, k)", "finish": "o = acc"},
             {"acc": f"m n|{F}"}),
        spec("two_contracted_axes", {"m": 8, "n": 128, "k1": 1, "k2": 128}, "k1 k2",
             {"a": f"k1 m k2|{H}", "b": f"k1 k2 n|{H}"}, {"o": f"m n|{F}"},
             {"init": "acc = 0", "step": "acc += dot(a, b, k1, k2)", "finish": "o = acc"},
             {"acc": f"m n|{F}"}),
        spec("integer_argmax", MN, "n", {"x": f"m n|{I}"}, {"o": f"m|{I}"},
             {"init": ["best = -2147483648", "place = 0"],
              "step": ["top = max(x, n)", "place = where(top > best, argmax(x, n), place)",
                       "best = maximum(best, top)"],
              "finish": "o = place"}, {"best": f"m|{I}", "place": f"m|{I}"}),
        spec("transposed_bias", {"m": 128, "n": 128}, "", {"x": f"n m|{F}", "bias": f"m|{F}"},
             {"o": f"m n|{F}"}, {"step": "o = x + bias"}),
        spec("names_of_the_module", {"m": 8, "x_i": 128}, "x_i",
             {"array": f"m x_i|{F}", "name": f"m x_i|{F}", "dtype": f"m|{F}",
              "inside": f"m x_i|{H}"},
             {"position": f"m|{F}"},
             {"init": "x = 0",
              "step": ["m_i = array * name", "term = m_i + inside", "x += sum(term * inside, x_i)"],
              "finish": ["left = x", "shift = left + dtype", "position = gelu(shift * 2)"]},
             {"x": f"m|{F}"}),
        spec("quantised_rows", {"m": 8, "n": 0}, "", X, {"q": f"m n|{B}", "s": f"m|{F}"},
             {"step": ["scale = maximum(max(abs(x), n), 1e-9) / 127", "s = scale",
                       "q = clip(floor(x / scale), -127, 127)"]}),
    )
}  # fmt: skip
