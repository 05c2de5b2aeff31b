"""AdamW: the optimizer, its parameter groups and its state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tinygrad_edu import backend, kernels
from tinygrad_edu.modes import enable_grad
from tinygrad_edu.nn.module import zero_grads
from tinygrad_edu.optim.flat import Kept, Layout
from tinygrad_edu.optim.groups import as_groups, check_options, match, new_group
from tinygrad_edu.tensor import Tensor


class AdamW:
    """Adam with decoupled weight decay. With g the gradient and t the parameter's own step, counted from 1:

        w ← w·(1 − lr·weight_decay)
        m ← β₁m + (1 − β₁)g,    v ← β₂v + (1 − β₂)g²
        w ← w − lr·(m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)

    A parameter whose grad is None is left alone: no update, no decay, no step counted.

    The parameters' arrays become views of one array per group, so that a step is one pass; a tensor or array that
    shared a parameter's memory before the optimizer was made no longer does.

    Args:
        params: parameters, (name, parameter) pairs as from `model.named_parameters()`, or dicts with such `params` and
            options of their own, as from `decay_groups(model, ...)`. With names, saved state is matched by name.
        lr: learning rate. To change it, write `param_groups[i]["lr"]`.
        betas: β₁ and β₂, decay of the running means.
        eps: ε.
        weight_decay: decay per step and unit of lr.

    Raises ValueError for no parameters, one given twice, one that is no leaf, an option out of range or unknown;
    TypeError for what is no Tensor.
    Source: Loshchilov and Hutter, "Decoupled weight decay regularization", 2019, algorithm 2.

    >>> import tinygrad_edu as tg
    >>> from tinygrad_edu import optim
    >>> w = tg.tensor([1.0], requires_grad=True)
    >>> adamw = optim.AdamW([w], lr=0.1, weight_decay=0.0)
    >>> (5 * w).sum().backward()
    >>> adamw.step()
    >>> round(w.item(), 6)
    0.9
    """

    param_groups: list[dict[str, Any]]

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        self.defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        groups: list[dict[str, Any]] = []
        for group in as_groups(params):
            groups.append(new_group(group, self.defaults, groups))
        self.param_groups = groups
        self._layouts: list[Layout] = []
        self._lay()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Take more parameters, with options of their own; what is not given comes from the optimizer's arguments."""
        self.param_groups.append(new_group(param_group, self.defaults, self.param_groups))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget every parameter's gradient (None: no update, no decay), or set it to zeros."""
        for group in self.param_groups:
            zero_grads(group["params"], set_to_none)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient, in place.

        Args:
            closure: called first, with recording on, if given; it computes the loss, calls backward and returns it.

        Returns what closure returned, else None. Raises ValueError for a gradient of another shape; no parameter was
        changed then.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        self._lay()
        found = [
            (group, flat, flat.gather())
            for group, layout in zip(self.param_groups, self._layouts)
            for flat in layout.flats
        ]
        for group, flat, runs in found:
            for begin, end, count in runs:
                beta1, beta2 = group["betas"]
                rates = {key: group[key] for key in ("lr", "eps", "weight_decay")}
                parts = flat.part(begin, end)
                update = getattr(kernels.of(parts[0]), "adamw", _adamw)
                update(*parts, beta1=beta1, beta2=beta2, step=count, **rates)
                flat.written(begin, end, count)
        return loss

    def state_dict(self) -> dict[str, Any]:
        """A copy of the state, laid out as PyTorch's.

        "state": number of the parameter (counted through the groups) to its "step" (int), "exp_avg" and "exp_avg_sq"
        (Tensors of its shape), for each that was updated at least once. "param_groups": the options, "params" as
        numbers, "param_shapes", and "param_names" where there are names; all of it plain lists and numbers.
        """
        groups, number = [], 0
        for group in self.param_groups:
            parameters = group["params"]
            numbers = list(range(number, number + len(parameters)))
            saved = {key: value for key, value in group.items() if key != "params"}
            saved |= {"params": numbers, "param_shapes": [list(p.shape) for p in parameters]}
            saved["betas"] = list(group["betas"])
            groups.append(saved)
            number += len(parameters)
        state = {}
        for at, kept in enumerate(self._kept()):
            if kept is not None:
                step, exp_avg, exp_avg_sq = kept
                state[at] = {"step": step, "exp_avg": Tensor(exp_avg), "exp_avg_sq": Tensor(exp_avg_sq)}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over moments, step counts and options. Everything is checked first: all of it or nothing.

        Differs from PyTorch: with names on both sides each parameter gets the state of its name, in whatever order;
        without any, position decides. Either way the shapes must be equal, and names on one side only are refused.

        Raises ValueError naming what differs.
        """
        try:
            saved, state = state_dict["param_groups"], state_dict["state"]
            numbers = match(saved, self.param_groups)
            options = [{key: group[key] for key in self.defaults} for group in saved]
        except KeyError as error:
            raise ValueError(f"AdamW.load_state_dict: the state lacks {error}") from None
        except ValueError as error:
            raise ValueError(f"AdamW.load_state_dict: nothing was loaded; {error}") from None
        for group in options:
            group["betas"] = tuple(group["betas"])
            check_options(group)
        parameters = [p for group in self.param_groups for p in group["params"]]
        kept: Kept = {}
        for key, entry in state.items():
            if int(key) not in numbers:
                raise ValueError(f"AdamW.load_state_dict: state of parameter {key}, which is in no group of the state")
            p = parameters[numbers[int(key)]]
            device = backend.device_of(p.array)
            moments = []
            for name in ("exp_avg", "exp_avg_sq"):
                value = entry[name].array if isinstance(entry[name], Tensor) else entry[name]
                if tuple(value.shape) != p.shape:
                    raise ValueError(
                        f"AdamW.load_state_dict: {name} of parameter {key} has shape {tuple(value.shape)}, its "
                        f"parameter {p.shape}"
                    )
                moments.append(backend.new_array(value, p.array.dtype, device))
            kept[id(p)] = int(entry["step"]), *moments
        for group, option in zip(self.param_groups, options):
            group.update(option)
        self._layouts = [Layout(group["params"], kept) for group in self.param_groups]

    def _lay(self) -> None:
        """Lay the parameters of a group together again where one is no longer a view of the group's array: it was
        copied, moved, cast, given a new array, or added."""
        for at, group in enumerate(self.param_groups):
            if at == len(self._layouts):
                self._layouts.append(Layout(group["params"], {}))
            elif not self._layouts[at].holds(group["params"]):
                self._layouts[at] = Layout(group["params"], self._layouts[at].kept())

    def _kept(self) -> list[tuple[int, Any, Any] | None]:
        """(step, exp_avg, exp_avg_sq) of every parameter in order, None for one that was never updated."""
        kept = {at: state for layout in self._layouts for at, state in layout.kept().items()}
        return [kept.get(id(p)) for group in self.param_groups for p in group["params"]]

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "param_groups": self.param_groups, "kept": self._kept()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.defaults, self.param_groups = state["defaults"], state["param_groups"]
        parameters = [p for group in self.param_groups for p in group["params"]]
        kept = {id(p): k for p, k in zip(parameters, state["kept"]) if k is not None}
        self._layouts = [Layout(group["params"], kept) for group in self.param_groups]

    def __repr__(self) -> str:
        rows = [
            f"  {len(group['params'])} parameters: " + ", ".join(f"{key}={group[key]}" for key in self.defaults)
            for group in self.param_groups
        ]
        return "\n".join(["AdamW(", *rows, ")"])


def _adamw(
    param: Any,
    grad: Any,
    exp_avg: Any,
    exp_avg_sq: Any,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: int,
) -> None:
    """The formula by the array's own arithmetic, for libraries without a kernel; writes all arrays but grad."""
    param *= 1 - lr * weight_decay
    exp_avg *= beta1
    exp_avg += (1 - beta1) * grad
    exp_avg_sq *= beta2
    exp_avg_sq += (1 - beta2) * grad * grad
    root = (exp_avg_sq / (1 - beta2**step)) ** 0.5
    param -= lr / (1 - beta1**step) * exp_avg / (root + eps)
