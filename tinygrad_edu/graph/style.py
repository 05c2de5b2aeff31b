"""The palette: what every colour on a picture means, on light and on dark ground."""

from __future__ import annotations

from typing import NamedTuple


class Look(NamedTuple):
    """Colours of one kind of card. header: its heading's ground; ink: its heading's text; border: around the card."""

    header: str
    ink: str
    border: str


INK, GREY, PAPER = "#1f2937", "#6b7280", "#ffffff"
VALUE, GRADIENT, NONE = "#334155", "#c2410c", "#94a3b8"
GRADIENT_GROUND, GRADIENT_HEADER, BACKWARD = "#fff7ed", "#ffedd5", "#fdba74"
SECOND, SECOND_GROUND = "#a21caf", "#fdf4ff"  # gradients of gradients
GRADIENTS = ((GRADIENT, GRADIENT_GROUND), (SECOND, SECOND_GROUND))
PARAMETER_GROUND, PARAMETER_BORDER = "#fde68a", "#d97706"
CONSTANT_GROUND, CONSTANT_BORDER = "#f1f5f9", "#94a3b9"
CLUSTER_GROUND, CLUSTER_BORDER = "#f8fafc", "#cbd5e1"
CONTRACTED, QUERY, KEY = "#be123c", "#0369a1", "#047857"
VISIBLE, EMPTY, WEIGHT = "#64748b", "#f1f5f8", "#6d28d9"

STREAMS = ("#0284c8", "#059669", "#be185d", "#a16207", "#4f46e5")  # one for each input, again from the start

LOOKS = {
    "plain": Look("#e2e8f0", INK, "#cbd5e1"),
    "pairs": Look("#ddd6fe", INK, "#a78bfa"),
    "mixes": Look("#6d28d9", "#fffffe", "#6d28d9"),
    "visibility": Look("#cbd5e2", INK, "#94a3b8"),
    "input": Look("#f0f9ff", INK, "#0284c7"),
    "output": Look("#f0f9ff", INK, "#0284c7"),
    "parameter": Look(PARAMETER_GROUND, INK, PARAMETER_BORDER),
    "arranges": Look(PAPER, INK, "#94a3b8"),
    "same": Look("#f1f5f7", GREY, "#cbd5e3"),
    "added": Look("#bbf7d0", INK, "#16a34a"),
    "removed": Look("#fecaca", INK, "#dc2626"),
    "changed": Look("#bae6fd", INK, "#0369a2"),
    "derived": Look("#ffedd5", INK, GRADIENT),
}

# Light colour -> the same on dark ground. Colours that are not listed stay as they are.
DARK = {
    INK: "#e2e8f0",
    GREY: "#94a3b8",
    PAPER: "#0f172a",
    VALUE: "#cbd5e1",
    GRADIENT: "#fb923c",
    NONE: "#64748b",
    GRADIENT_GROUND: "#2a1a10",
    GRADIENT_HEADER: "#43270f",
    BACKWARD: "#9a4f1b",
    SECOND: "#e879f9",
    SECOND_GROUND: "#2b1230",
    "#ffedd5": "#43270f",
    PARAMETER_GROUND: "#5c4813",
    CONSTANT_GROUND: "#1e293b",
    CLUSTER_GROUND: "#111c30",
    CLUSTER_BORDER: "#334155",
    CONTRACTED: "#fb7185",
    QUERY: "#38bdf8",
    KEY: "#34d399",
    VISIBLE: "#94a3b9",
    EMPTY: "#1b2638",
    "#e2e8f0": "#26344b",
    "#ddd6fe": "#3b2f6b",
    "#cbd5e2": "#3a475a",
    "#f0f9ff": "#0c2338",
    "#f1f5f7": "#1b2637",
    "#cbd5e3": "#334156",
    "#bbf7d0": "#14532d",
    "#fecaca": "#7f1d1d",
    "#bae6fd": "#0c4a6e",
}


def gradient(order: int) -> tuple[str, str]:
    """Ink and ground of what tells of a gradient, by how often it was differentiated."""
    return GRADIENTS[min(order, len(GRADIENTS)) - 1]
