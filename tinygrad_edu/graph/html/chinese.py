"""What the page itself says, in Chinese: by the English text that stands in its parts."""

from __future__ import annotations

from tinygrad_edu.graph.words import spoken

CHINESE = {
    # Tabs, bar and buttons
    "Model": "模型",
    "Modules": "模块",
    "Steps": "步骤",
    "Ops": "算子",
    "Mirror": "镜像",
    "{steps} steps, {branches} gradient branches": "{steps} 个步骤，{branches} 条梯度分支",
    "forward and backward": "前向与反向",
    "What to see": "看什么",
    "Find name, op, shape": "查找名称、算子、形状",
    "Find a name, an op, a shape": "查找名称、算子或形状",
    "Next (Enter)": "下一个（Enter）",
    "Next match": "下一个结果",
    "Previous (Shift+Enter)": "上一个（Shift+Enter）",
    "Previous match": "上一个结果",
    "Tools": "工具",
    "Quiz": "测验",
    "Hide all gradients and recall them (Q)": "遮住所有梯度，逐个回忆（Q）",
    "Ledger": "账本",
    "All steps as a table (L)": "所有步骤列成表（L）",
    "Download this drawing as SVG (S)": "把这张图存为 SVG（S）",
    "Light or dark": "浅色或深色",
    "Light or dark (D)": "浅色或深色（D）",
    "Keys": "按键",
    "Keys (?)": "按键（?）",
    "Zoom": "缩放",
    "Smaller": "缩小",
    "Smaller (−)": "缩小（−）",
    "Larger": "放大",
    "Larger (+)": "放大（+）",
    "Fit": "全图",
    "All of it (F)": "看全图（F）",
    "This page needs JavaScript for zoom, steps and the quiz.": "缩放、逐步和测验需要 JavaScript。",
    # The side
    "Details": "详情",
    "Backward pass": "反向传播",
    "Previous gradient": "上一个梯度",
    "Previous gradient (←)": "上一个梯度（←）",
    "Next gradient": "下一个梯度",
    "Next gradient (→)": "下一个梯度（→）",
    "{all} gradients": "{all} 个梯度",
    "{n} of {all}": "{n} / {all}",
    "none": "没有",
    "Press → to follow the gradients one by one, in the order in which they ran.": "按 → 按执行顺序逐个查看梯度。",
    "No gradient flows here.": "这里没有梯度流过。",
    "through {card}": "经过 {card}",
    "at {card}": "在 {card}",
    "shape": "形状",
    "Say it first, then reveal it (Space)": "先说出来，再揭开（空格）",
    "Reveal all": "全部揭开",
    "{n} of {all} revealed": "已揭开 {n} / {all}",
    "Hidden gradient of {label}. Press Enter to reveal it": "{label} 的梯度已遮住，按 Enter 揭开",
    "Hidden name of a gradient": "已遮住的梯度名",
    "Gradients": "梯度",
    "Its gradients read {names}.": "它的梯度读取 {names}。",
    "Open {part}": "打开 {part}",
    "Close {part}": "合上 {part}",
    "from": "来自",
    "to": "去往",
    "Axes": "轴",
    "{name}, length {size}": "{name}，长度 {size}",
    "Step {n}: {op}": "第 {n} 步：{op}",
    "{n} more steps are not drawn; the ledger as a file has them all": "另有 {n} 步没有画出；账本文件里全都有",
    # Axes
    "batch: examples side by side": "批：并排的样本",
    "positions of the sequence": "序列的位置",
    "width of the model": "模型宽度",
    "attention heads": "注意力头",
    "width of one head": "单个头的宽度",
    "width inside the feed-forward layer": "前馈层内部的宽度",
    "vocabulary": "词表",
    "positions that ask, the query side": "提问的位置，查询一侧",
    "positions that are asked, the key side": "被问的位置，键一侧",
    "{meaning} of {axis}": "{axis}：{meaning}",
    "axis {n} of {name}": "{name} 的第 {n} 轴",
    # Keys
    "next, previous gradient of the backward pass": "反向传播的下一个、上一个梯度",
    "before the first, the last gradient": "第一个之前、最后一个梯度",
    "next, previous card of the forward pass": "前向的下一张、上一张卡片",
    "tell of a card; open what is folded": "说明一张卡片；打开折叠的部分",
    "find; Enter and Shift+Enter for the next and the previous match": "查找；Enter 和 Shift+Enter 到下一个、上一个",
    "larger, smaller; the wheel does so at the cursor, dragging moves": "放大、缩小；滚轮在光标处缩放，拖动平移",
    "all of the drawing": "看全图",
    "quiz: hide all gradients, or show them": "测验：遮住或显示所有梯度",
    "in the quiz: reveal the gradient of this step or box": "测验中：揭开这一步或这一格的梯度",
    "in the quiz: reveal all": "测验中：全部揭开",
    "the ledger": "账本",
    "light or dark": "浅色或深色",
    "download the drawing as SVG": "把图存为 SVG",
    "the tabs": "各个标签页",
    "leave what is chosen or found": "离开选中或找到的内容",
    "these keys": "这些按键",
    "Close": "关闭",
}


def table() -> dict[str, str]:
    """The texts of the page in the language that is spoken; empty for English, in which they are written."""
    return CHINESE if spoken() == "zh" else {}


def said(text: str, **values: object) -> str:
    """An English text of the page in the language that is spoken, filled with values.

    >>> said("{n} of {all}", n=1, all=7)
    '1 of 7'
    """
    return table().get(text, text).format(**values)
