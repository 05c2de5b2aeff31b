"""What pictures and ledgers say, in Chinese: by the English text that stands in the code."""

from __future__ import annotations

CHINESE = {
    # Wires, cards and headings
    "no gradient": "无梯度",
    "{title}: {reads}": "{title}：{reads}",
    "forward runs down, backward runs up, on the same wires": "前向向下，反向向上，走同一条线",
    "forward": "前向",
    "contract {contracts} · keep {keeps}": "收缩 {contracts} · 保留 {keeps}",
    "contract {axes}": "收缩 {axes}",
    "sum over {axes}": "对 {axes} 求和",
    "a number": "一个数",
    "constant": "常量",
    "made before the trace": "记录开始前产生",
    "parameter": "参数",
    "input": "输入",
    "buffer": "缓冲",
    "shared": "共享",
    "result": "结果",
    "result, {name}": "结果，{name}",
    "returned as it is": "原样返回",
    "returned as it is as {label}": "原样返回为 {label}",
    "backward starts here": "反向由此开始",
    "gradient enters here": "梯度由此进入",
    "no gradient history": "无梯度历史",
    "no gradient history: nothing that leads to the result needs a gradient": "无梯度历史：通向结果的量都不需要梯度",
    "sum of the branches": "各分支之和",
    "one behind the other": "依次拼接",
    "equal lengths: {names} = {n}": "长度相等：{names} = {n}",
    "parameters that nothing reads: {names}": "未被读取的参数：{names}",
    "parameters that nothing reads: {names} and {n} more": "未被读取的参数：{names} 等，另有 {n} 个",
    # Grids
    "every row sums to 1": "每行之和为 1",
    "shown: the first of all": "所示为第一个",
    "{rows}×{columns} of {queries}×{keys} shown": "显示 {queries}×{keys} 中的 {rows}×{columns}",
    "{seen} of {all} visible": "{all} 个中可见 {seen} 个",
    "up to {far} of them with the weight 0: a bias lowers scores with distance": (
        "其中至多 {far} 个的权重为 0：偏置随距离降低分数"
    ),
    "every key": "每个键",
    "{almost} almost hidden with weights up to {most}: the mask is finite, and training can outgrow it": (
        "{almost} 个几乎被遮挡，权重最大为 {most}：掩码是有限的，训练可能会超过它"
    ),
    # Kinds
    "visibility": "可见性",
    "hides after the softmax": "在 softmax 之后遮挡",
    "from each position to all that are read after it": "从每个位置到其后读入的所有位置",
    "MOVES CONTENT BETWEEN TOKENS": "在词元之间搬运内容",
    "scores token pairs": "给词元对打分",
    "token-wise": "逐词元",
    "row by row": "逐行",
    "row by row, over {axes}": "逐行，沿 {axes}",
    "on token pairs": "作用于词元对",
    "for token pairs": "用于词元对",
    "shape only": "只改形状",
    "picked by index": "按索引选取",
    "over {axes}": "沿 {axes}",
    "of a gradient": "属于梯度",
    "{words} · order {n}": "{words} · {n} 阶",
    "backward does not start here": "反向不由此开始",
    "every column sums to 1": "每列之和为 1",
    "{marked} of {all} weights hidden after the softmax: rows no longer sum to 1": (
        "softmax 之后遮挡了 {all} 个权重中的 {marked} 个：行和不再为 1"
    ),
    # Visibility
    "{name}: {rules}": "{name}：{rules}",
    "causal": "因果",
    "padding": "填充",
    "causal and padding": "因果加填充",
    "documents": "文档",
    "causal in documents": "文档内因果",
    "keys of the query's own document": "只看查询所在文档的键",
    "transposed": "转置",
    "full": "全部",
    "the same keys for every query": "每个查询看到相同的键",
    "the same keys for every row": "每行看到相同的列",
    "column ≤ row": "列 ≤ 行",
    "full: all {all} of {all} visible": "全部：{all} 个中可见 {all} 个",
    "{text} in the first of several, which differ": "第一个中{text}，各个不同",
    "{gone} of {all} hidden after the softmax, then rows are made to sum to 1 again": (
        "softmax 之后遮挡 {all} 个中的 {gone} 个，然后每行重新归一"
    ),
    "{gone} of {all} hidden after the softmax: rows no longer sum to 1; hide scores with −∞ before it": (
        "softmax 之后遮挡 {all} 个中的 {gone} 个：行和不再为 1；应在其之前用 −∞ 遮挡分数"
    ),
    "the softmax runs over the queries: columns sum to 1 and not rows; let it run over the keys": (
        "softmax 沿查询进行：列和为 1 而非行和；应沿键进行"
    ),
    "declared causal, but {found}: the mask is missing": "声明为因果，但{found}：缺少掩码",
    "declared causal, but {found}: the mask is transposed": "声明为因果，但{found}：掩码转置了",
    "declared {said}, but {found}: no key is hidden in this batch": "声明为{said}，但{found}：这一批中没有键被遮挡",
    "declared {said}, but {found}": "声明为{said}，但{found}",
    # Sources
    "Q, K, V share one source, {name}: self-attention": "Q、K、V 同源于 {name}：自注意力",
    "Q from {q}, K and V from {k}: cross-attention": "Q 来自 {q}，K 和 V 来自 {k}：交叉注意力",
    "Q from {q}, K from {k}, V from {v}": "Q 来自 {q}，K 来自 {k}，V 来自 {v}",
    "from {name}, with weights that depend on no token": "来自 {name}，权重与词元无关",
    # The ledger
    "op": "运算",
    "axes": "轴",
    "shape": "形状",
    "contracts": "收缩",
    "keeps": "保留",
    "tokens": "词元",
    "source": "来源",
    "params": "参数",
    "backward": "反向",
    "reads": "读取",
    "multiply-adds forward: {n}": "前向乘加次数：{n}",
    "parameters: {n}": "参数：{n}",
    "parameters: {n}, {more} as often as they are read": "参数：{n}，按读取次数计 {more}",
    "bytes kept for backward, parameters left out: {n}": "为反向保存的字节，不含参数：{n}",
    "shapes": "形状",
    "gradients": "梯度",
    "line {n}": "第 {n} 行",
    "FAIL: {text}": "未通过：{text}",
    "passed": "通过",
    "check: {verdict}": "检查：{verdict}",
    "{n} of {all} lines failed": "{all} 行中有 {n} 行未通过",
    "{named} of {all} wires have a name for every axis": "{all} 条线中有 {named} 条每个轴都有名字",
    "{text}; lengths only: {names}": "{text}；只有长度：{names}",
    "nothing moves content between tokens": "没有在词元之间搬运内容",
    "{what}: where queries, keys and values come from is not told": "{what}：无法判断查询、键和值的来源",
    "{what}: too many weights to look at them": "{what}：权重太多，未查看",
    "{what}: attention is declared, but no softmax runs over keys": "{what}：声明了注意力，但没有沿键的 softmax",
    "no softmax over keys": "没有沿键的 softmax",
    "scores are declared to be scaled by {wanted}, but it is no number that scales them": (
        "声明分数乘以 {wanted}，但乘的不是一个数"
    ),
    "scores are scaled by {wanted}, as declared": "分数乘以 {wanted}，与声明一致",
    "scores are declared to be scaled by {wanted}, but are scaled by {scale}": (
        "声明分数乘以 {wanted}，实际乘以 {scale}"
    ),
    "{branches} branches, {sums} sums where several meet": "{branches} 个分支，{sums} 处汇合求和",
    "{text}; no backward pass": "{text}；没有反向",
    "{text}; all that needs a gradient is reached": "{text}；需要梯度的都已到达",
    "no gradient reached {what}, read in line {at}": "梯度未到达 {what}，它在第 {at} 行被读取",
    "nothing reads {names}": "未被读取：{names}",
    "{op} has no gradient rule for its input {name}": "{op} 对输入 {name} 没有梯度规则",
    # Pictures from the tape alone
    "drawn from the tape alone, which keeps no lines of code, no modules and no values that backward does not read: "
    "trace(function, *inputs) shows them": (
        "仅由记录带画出，它不保存代码行、模块和反向不读取的值：trace(function, *inputs) 可以显示它们"
    ),
    "no gradients drawn: an earlier backward pass freed what the ops had saved; draw before it, or pass "
    "retain_graph=True to it": "未画梯度：先前的反向已释放保存的值；请在其之前画，或给它传 retain_graph=True",
    "no gradients drawn: {error}": "未画梯度：{error}",
    "? stands for a value that needs no gradient and was not kept ({n} of them)": (
        "? 表示不需要梯度、未被保存的值（{n} 个）"
    ),
    # Levels, folding, the mirror
    "definition of {op}": "{op} 的定义",
    "× {n}, same shapes": "× {n}，形状相同",
    "× {n}, same shapes, the same weights": "× {n}，形状相同，权重相同",
    "reads from:": "读自：",
    "token pairs": "词元对",
    "moves content between tokens": "在词元之间搬运内容",
    "{n} parameters in {k} tensors": "{k} 个张量中共 {n} 个参数",
    "for {n} parameter tensors": "给 {n} 个参数张量",
    "back through {n} steps": "经 {n} 步回传",
    "forward runs down on the left, backward runs up on the right, dotted is what was saved": (
        "左边前向向下，右边反向向上，虚线是保存的值"
    ),
    "no mirror: nothing goes back": "没有镜像：没有反向",
    "no mirror: it reads well up to {most} steps; name a module, for example one attention": (
        "没有镜像：最多 {most} 步时才易读；请指定一个模块，例如一个注意力"
    ),
    "backward of {name}": "{name} 的反向",
    "reads what was saved: {names}": "读取保存的值：{names}",
    "one kernel": "一个内核",
    "passed on as it is": "原样传递",
    "goes back from here": "由此回传",
    "{one} of each is {other} of the next": "每个的 {one} 是下一个的 {other}",
    "{one} of each is {other} of the next, the last gives {end}": "每个的 {one} 是下一个的 {other}，最后一个给出 {end}",
    "definition": "定义",
    "level {level} has {n} cards, more than {most}: this is level {found}; a module can be opened by name": (
        "第 {level} 级有 {n} 张卡片，超过 {most}：此处为第 {found} 级；可按名称展开模块"
    ),
    # Differences
    "what": "变化",
    "module": "模块",
    "step before": "之前",
    "step after": "之后",
    "difference": "差别",
    "same": "相同",
    "changed": "改变",
    "added": "新增",
    "removed": "删除",
    "equal": "相同",
    "repeats": "重复",
    "mask": "掩码",
    "visible": "可见",
    "parameters": "参数",
    "repeats of {path}: {old} → {new}": "{path} 的重复次数：{old} → {new}",
    "{n} equal": "{n} 处相同",
    "{n} steps and inputs are equal": "{n} 个步骤和输入相同",
    "what is added, removed and changed": "新增、删除和改变之处",
}
