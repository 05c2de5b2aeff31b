"""The formulas of ops and of their gradients, in Chinese, where they have words: by the text in the op's docstring."""

from __future__ import annotations

FORMULAS = {
    # Choice and comparison
    "{out} = {x} where {condition}, else {y}": "{out} = {condition} 处为 {x}, 其余为 {y}",
    "{out} = {value} where {mask}, else {x}": "{out} = {mask} 处为 {value}, 其余为 {x}",
    "{out} = {x} as {dtype}": "{out} = {x} 转为 {dtype}",
    "{out} = whether {x} = {y}": "{out} = 是否 {x} = {y}",
    "{out} = whether {x} ≠ {y}": "{out} = 是否 {x} ≠ {y}",
    "{out} = whether {x} < {y}": "{out} = 是否 {x} < {y}",
    "{out} = whether {x} ≤ {y}": "{out} = 是否 {x} ≤ {y}",
    "{out} = not {x}": "{out} = 非 {x}",
    "{out} = {x} and {y}": "{out} = {x} 且 {y}",
    "{out} = {x} or {y}": "{out} = {x} 或 {y}",
    "d{x} = d{out} where {condition}, else 0": "d{x} = {condition} 处为 d{out}, 其余为 0",
    "d{y} = 0 where {condition}, else d{out}": "d{y} = {condition} 处为 0, 其余为 d{out}",
    "d{x} = 0 where {mask}, else d{out}": "d{x} = {mask} 处为 0, 其余为 d{out}",
    "d{x} = d{out} as the dtype of {x}": "d{x} = d{out} 转为 {x} 的类型",
    # Arithmetic
    "{out} = −1, 0 or 1": "{out} = −1, 0 或 1",
    "{out} = {x}, but {low} below {low} and {high} above {high}": "{out} = {x} 限制在 {low} 到 {high}",
    "{out} = the largest integer not above {x}": "{out} = 不大于 {x} 的最大整数",
    "{out} = {x} without its digits behind the point": "{out} = {x} 的整数部分",
    "{out} = {x} rounded to {decimals} decimals, halves to even": "{out} = {x} 四舍六入到 {decimals} 位小数",
    "{out} = {x} ⊙ σ({x}), σ the sigmoid": "{out} = {x} ⊙ σ({x})",
    "{out} = ln(1 + {x}), exact near 0": "{out} = ln(1 + {x}), 在 0 附近精确",
    "{out} = exp {x} − 1, exact near 0": "{out} = exp {x} − 1, 在 0 附近精确",
    "{out} = 1 / cosh² {x}, the slope of tanh": "{out} = 1 / cosh² {x}, 即 tanh 的导数",
    "{out} = 1 − erf {x}, with all its digits far to the right": "{out} = 1 − erf {x}, 在右端仍精确",
    "{out} = Φ({x}), the normal distribution function (1 + erf({x}/√2)) / 2": (
        "{out} = Φ({x}), 正态分布函数 (1 + erf({x}/√2)) / 2"
    ),
    "{out} = tanh(ln(1 + exp {x})), the logarithm not rounded": "{out} = tanh(ln(1 + exp {x})), 对数不舍入",
    "{out} = (1 − tanh²(ln(1 + exp {x}))) σ({x}), the slope of tanh_softplus": (
        "{out} = (1 − tanh²(ln(1 + exp {x}))) σ({x}), 即 tanh_softplus 的导数"
    ),
    "{out} = trunc({x} / {y}), of the quotient before it is rounded": "{out} = trunc({x} / {y}), 商先不舍入",
    "{out} = ln(exp {x} + exp {y}), without overflow": "{out} = ln(exp {x} + exp {y}), 不溢出",
    "{out} = {x} − tanh {x}, with all its digits near 0": "{out} = {x} − tanh {x}, 在 0 附近精确",
    "{out} = 1 − {x}², with all its digits near ±1": "{out} = 1 − {x}², 在 ±1 附近精确",
    "{out} = {x} / √({x}² + {y}²), the cosine of the angle between ({x}, {y}) and the first axis; 0 at (0, 0)": (
        "{out} = {x} / √({x}² + {y}²), 即 ({x}, {y}) 与第一轴夹角的余弦; (0, 0) 处为 0"
    ),
    "{out} = {x} / ({x}² + {y}²), a coordinate of the point ({x}, {y}) mirrored in the unit circle; 0 at (0, 0)": (
        "{out} = {x} / ({x}² + {y}²), 即点 ({x}, {y}) 关于单位圆的反演坐标; (0, 0) 处为 0"
    ),
    "{out} = the angle of the point ({y}, {x}), from −π to π; the gradient at (0, 0) is 0": (
        "{out} = 点 ({y}, {x}) 的角, 从 −π 到 π; (0, 0) 处梯度为 0"
    ),
    "d{x} = d{out} ⊙ sech² {x}, which is 1 − {out}²": "d{x} = d{out} ⊙ sech² {x}, 即 1 − {out}²",
    "d{x} = d{out} ⊙ ¼ sech²({x} / 2), which is {out} ⊙ (1 − {out})": (
        "d{x} = d{out} ⊙ ¼ sech²({x} / 2), 即 {out} ⊙ (1 − {out})"
    ),
    "d{x} = d{out} where {x} > 0, else {alpha} d{out} ⊙ exp {x}": (
        "d{x} = {x} > 0 处为 d{out}, 其余为 {alpha} d{out} ⊙ exp {x}"
    ),
    "{out} = {x} where {x} > 0, else {slope} {x}": "{out} = {x} > 0 处为 {x}, 其余为 {slope} {x}",
    "{out} = {x} where {x} > 0, else {alpha} (exp {x} − 1)": "{out} = {x} > 0 处为 {x}, 其余为 {alpha} (exp {x} − 1)",
    "d{x} = d{out} where {out} > 0, else 0": "d{x} = {out} > 0 处为 d{out}, 其余为 0",
    "d{x} = d{out} where {x} > 0, else {slope} d{out}": "d{x} = {x} > 0 处为 d{out}, 其余为 {slope} d{out}",
    "d{x} = d{out} where {low} ≤ {x} ≤ {high}, else 0": "d{x} = {low} ≤ {x} ≤ {high} 处为 d{out}, 其余为 0",
    "d{x} = d{out} where {x} > {y}, half of it where equal": "d{x} = {x} > {y} 处为 d{out}, 相等处为一半",
    "d{y} = d{out} where {y} > {x}, half of it where equal": "d{y} = {y} > {x} 处为 d{out}, 相等处为一半",
    "d{x} = d{out} where {x} < {y}, half of it where equal": "d{x} = {x} < {y} 处为 d{out}, 相等处为一半",
    "d{y} = d{out} where {y} < {x}, half of it where equal": "d{y} = {y} < {x} 处为 d{out}, 相等处为一半",
    # Shapes
    "{out} = {x}, as a node of its own": "{out} = {x}, 单独成点",
    "{out} = {x}, and no gradient goes back": "{out} = {x}, 梯度不回传",
    "{out} = {x} in memory of its own": "{out} = {x} 的副本",
    "{out} = {x} on {device}": "{out} = {x} 移到 {device}",
    "{out} = {x} read row by row into {shape}": "{out} = {x} 逐行读成 {shape}",
    "{out} = {x} with its axes in the order {axes}": "{out} = {x} 的轴按 {axes} 排列",
    "{out} = {x} with two axes exchanged": "{out} = {x} 交换两个轴",
    "{out} = {x} copied along new axes and axes of 1, up to {shape}": "{out} = {x} 沿新轴和长为 1 的轴复制到 {shape}",
    "{out} = Σ {x} over the axes along which {shape} was copied": "{out} = Σ {x}, 沿复制到 {shape} 的轴",
    "{out} = the inputs, one behind the other along {axis}": "{out} = 各输入沿 {axis} 依次拼接",
    "outputs = {x} cut into pieces of the lengths {sizes} along {axis}": "输出 = {x} 沿 {axis} 切成长 {sizes} 的段",
    "{out} = {x} from {start} up to {stop} along {axis}": "{out} = {x} 沿 {axis} 从 {start} 到 {stop}",
    "{out} = {x} from {start} on along an axis of {length}, 0 elsewhere": (
        "{out} = {x} 从 {start} 起放在长 {length} 的轴上, 其余为 0"
    ),
    "outputs = the slices of {x} along {axis}, without that axis": "输出 = {x} 沿 {axis} 的各片, 去掉该轴",
    "{out} = {x} from back to front along {axes}": "{out} = {x} 沿 {axes} 倒序",
    "{out} = {x} moved on by {shifts} along {axes}, from the end round to the start": (
        "{out} = {x} 沿 {axes} 循环移动 {shifts}"
    ),
    "{out} = {x} with {value} around it, {widths} elements before and behind each axis": (
        "{out} = {x} 四周补 {value}, 各轴前后 {widths} 个"
    ),
    "{out} = {x} without {widths} elements before and behind each axis": "{out} = {x} 各轴前后去掉 {widths} 个",
    "d{x} = d{out} on {source}": "d{x} = d{out} 移到 {source}",
    "d{x} = d{out} in the shape of {x}": "d{x} = d{out} 按 {x} 的形状",
    "d{x} = d{out} with the axes back in order": "d{x} = d{out} 的轴还原顺序",
    "d{x} = d{out} with the two axes exchanged": "d{x} = d{out} 交换这两个轴",
    "d{x} = Σ d{out} over the copied axes": "d{x} = Σ d{out}, 沿复制的轴",
    "d{x} = d{out}, copied along the summed axes": "d{x} = d{out}, 沿求和的轴复制",
    "d of each input = its part of d{out}": "各输入的 d = d{out} 中对应的部分",
    "d{x} = the pieces' gradients, one behind the other": "d{x} = 各段的梯度依次拼接",
    "d{x} = the slices' gradients, side by side along {axis}": "d{x} = 各片的梯度沿 {axis} 并排",
    "d{x} = d{out} at its place, 0 around it": "d{x} = d{out} 放回原处, 周围为 0",
    "d{x} = the part of d{out} where {x} stands": "d{x} = d{out} 在 {x} 处的部分",
    "d{x} = d{out} from back to front along {axes}": "d{x} = d{out} 沿 {axes} 倒序",
    "d{x} = d{out} moved back by {shifts}": "d{x} = d{out} 移回 {shifts}",
    "d{x} = the inner part of d{out}": "d{x} = d{out} 的内部",
    "d{x} = d{out} with 0 around it": "d{x} = d{out} 四周补 0",
    # Reductions and running results
    "{out} = Σ {x} over {axes}": "{out} = Σ {x}, 沿 {axes}",
    "{out} = Σ {x} / n over {axes}": "{out} = Σ {x} / n, 沿 {axes}",
    "{out} = max {x} over {axes}": "{out} = max {x}, 沿 {axes}",
    "{out} = min {x} over {axes}": "{out} = min {x}, 沿 {axes}",
    "{out} = whether any {x} over {axes}": "{out} = 是否有 {x}, 沿 {axes}",
    "{out} = whether all {x} over {axes}": "{out} = 是否全是 {x}, 沿 {axes}",
    "{out} = ln Σ exp {x} over {axes}, the largest taken out first": "{out} = ln Σ exp {x}, 沿 {axes}",
    "{out} = √(Σ {x}²) over {axes}": "{out} = √(Σ {x}²), 沿 {axes}",
    "{out} = (Σ |{x}|^{p})^(1/{p}) over {axes}, {p} > 1": "{out} = (Σ |{x}|^{p})^(1/{p}), 沿 {axes}, {p} > 1",
    "{out} = {x} / {length}, its norm (Σ |{x}|^{p})^(1/{p}) over {axes}, {p} from 1 on; 0 where that is 0": (
        "{out} = {x} / {length}, 即除以沿 {axes} 的范数 (Σ |{x}|^{p})^(1/{p}), {p} ≥ 1; 范数为 0 处为 0"
    ),
    "d{length} = 0: that it depends on {x} is in d{x}": "d{length} = 0: 它对 {x} 的依赖已计入 d{x}",
    "{out} = Π {x} over {axes}": "{out} = Π {x}, 沿 {axes}",
    "{out}_i = Σ {x}_j over j ≤ i along {axis}": "{out}_i = Σ {x}_j, j ≤ i, 沿 {axis}",
    "d{x} = d{out}, copied along {axes}": "d{x} = d{out}, 沿 {axes} 复制",
    "d{x} = d{out} / n, copied along {axes}": "d{x} = d{out} / n, 沿 {axes} 复制",
    "d{x} = d{out} / (number of maxima) where {x} = {out}, else 0": "d{x} = {x} = {out} 处为 d{out} / 个数, 其余为 0",
    "d{x} = d{out} / (number of minima) where {x} = {out}, else 0": "d{x} = {x} = {out} 处为 d{out} / 个数, 其余为 0",
    "d{x} = d{out} ⊙ the product of all others": "d{x} = d{out} ⊙ 其余各数之积",
    "d{x}_j = Σ d{out}_i over i ≥ j": "d{x}_j = Σ d{out}_i, i ≥ j",
    "values, indices = the largest of {x} along {axis} and where it stands first": "值, 位置 = {x} 沿 {axis} 的最大值",
    "values, indices = the smallest of {x} along {axis} and where it stands first": "值, 位置 = {x} 沿 {axis} 的最小值",
    "{out} = where the largest of {x} stands first along {axis}": "{out} = {x} 沿 {axis} 最大值的位置",
    "{out} = where the smallest of {x} stands first along {axis}": "{out} = {x} 沿 {axis} 最小值的位置",
    "values, indices = {x} in order along {axis}, equal ones as they stood": "值, 位置 = {x} 沿 {axis} 排序",
    "values, indices = the {k} largest of {x} along {axis}, in order, or the {k} smallest": (
        "值, 位置 = {x} 沿 {axis} 最大的 {k} 个"
    ),
    "d{x} = dvalues at the indices, else 0": "d{x} = 各位置处为 d值, 其余为 0",
    "d{x} = dvalues at the indices": "d{x} = 各位置处的 d值",
    # Attention, layers and losses
    "{out} = exp {x} / Σ exp {x} over {axis}": "{out} = exp {x} / Σ exp {x}, 沿 {axis}",
    "{out} = {x} − ln Σ exp {x} over {axis}": "{out} = {x} − ln Σ exp {x}, 沿 {axis}",
    "{out} = {x} ⊙ Φ({x}), Φ the normal distribution function, exact or through tanh": (
        "{out} = {x} ⊙ Φ({x}), Φ 为正态分布函数"
    ),
    "{out} = zeros of {shape} with {x} added at {index}": "{out} = {shape} 个零, 在 {index} 处加 {x}",
    "{out}[..., i, ...] = {x}[..., {index}[..., i, ...], ...] along {axis}": "{out} = {x} 沿 {axis} 取 {index}",
    "{out} = zeros of {shape} with {x} added at {index} along {axis}": (
        "{out} = {shape} 个零, 沿 {axis} 在 {index} 处加 {x}"
    ),
    "{out} = {x} with {value} at {index}": "{out} = {x}, {index} 处换成 {value}",
    "{out} = the rows {ids} of {weight}": "{out} = {weight} 的第 {ids} 行",
    "{out} = ({x} − μ) / √(σ² + {eps}) ⊙ {weight} + {bias}, μ and σ² over the last {axes} axes": (
        "{out} = ({x} − μ) / √(σ² + {eps}) ⊙ {weight} + {bias}, μ, σ² 取自末 {axes} 轴"
    ),
    "{out} = {x} / √(mean({x}²) + {eps}) ⊙ {weight}, the mean over the last {axes} axes": (
        "{out} = {x} / √(mean({x}²) + {eps}) ⊙ {weight}, 均值沿末 {axes} 轴"
    ),
    "{out} = {x} ⊙ mask / (1 − {p}), the mask 0 with probability {p}, else 1": (
        "{out} = {x} ⊙ 掩码 / (1 − {p}), 掩码以概率 {p} 为 0"
    ),
    "{out} = softmax({query}·{key}ᵀ · {scale})·{value}, hidden scores at −∞": (
        "{out} = softmax({query}·{key}ᵀ · {scale})·{value}, 遮挡处为 −∞"
    ),
    "h_t = o ⊙ tanh c_t with c_t = f ⊙ c_(t−1) + i ⊙ g, from {h} and {c} on; results: all h_t, the last c_t": (
        "h_t = o ⊙ tanh c_t 其中 c_t = f ⊙ c_(t−1) + i ⊙ g, 从 {h}, {c} 起; 结果: 所有 h_t, 最后的 c_t"
    ),
    "{out}_t = (1 − z) ⊙ n + z ⊙ {out}_(t−1) with n = tanh({x}_t + r ⊙ p_t), from {h} on": (
        "{out}_t = (1 − z) ⊙ n + z ⊙ {out}_(t−1) 其中 n = tanh({x}_t + r ⊙ p_t), 从 {h} 起"
    ),
    "{out}_t = tanh({x}_t + {out}_(t−1)·{weight}ᵀ + {bias}), or max(..., 0), from {h} on": (
        "{out}_t = tanh({x}_t + {out}_(t−1)·{weight}ᵀ + {bias}), 或 max(..., 0), 从 {h} 起"
    ),
    "d{x}_t = (d{out}_t + d{x}_(t+1)·{weight}) ⊙ (1 − {out}_t²), or ⊙ ({out}_t > 0)": (
        "d{x}_t = (d{out}_t + d{x}_(t+1)·{weight}) ⊙ (1 − {out}_t²), 或 ⊙ ({out}_t > 0)"
    ),
    "{out} = −ln softmax({logits})[{target}] of every row": "{out} = 每行的 −ln softmax({logits})[{target}]",
    "d{x} = d{out} added at {index}, 0 elsewhere": "d{x} = d{out} 加在 {index} 处, 其余为 0",
    "d{x} = d{out} picked at {index}": "d{x} = d{out} 取自 {index}",
    "d{x} = d{out}, 0 at {index}": "d{x} = d{out}, {index} 处为 0",
    "d{weight} = d{out} added at the rows {ids}": "d{weight} = d{out} 加到第 {ids} 行",
    "d{x} = d{out} ⊙ mask / (1 − {p})": "d{x} = d{out} ⊙ 掩码 / (1 − {p})",
    # Products
    "Σ {factors} over {axes}": "Σ {factors}, 沿 {axes}",
}
