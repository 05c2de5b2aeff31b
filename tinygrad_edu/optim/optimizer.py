"""What all optimizers share: parameter groups, flat memory, the step, saved state."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

from tinygrad_edu.arrays import devices, dtypes, library
from tinygrad_edu.arrays.sums import narrow, wide
from tinygrad_edu.engine.modes import enable_grad
from tinygrad_edu.engine.tape import wrap
from tinygrad_edu.kernels import crew
from tinygrad_edu.nn.module import zero_grads
from tinygrad_edu.optim.flat import Flat, Kept, Layout, kept_dtype
from tinygrad_edu.optim.groups import as_groups, match, new_group
from tinygrad_edu.options import flag, number
from tinygrad_edu.tensor import Tensor, tensor

_PIECE = 1 << 15  # elements of a pass of several operations, whose arrays together stay in a core's cache


def leaves_grad(update: Callable[..., None]) -> Callable[..., None]:
    """Mark an `update` that does not write to grad: then it may get the gradients themselves instead of a copy."""
    update.leaves_grad = True  # type: ignore[attr-defined]
    return update


@functools.cache
def _defaults(init: Any) -> dict[str, Any]:
    parameters = inspect.signature(init).parameters
    return {name: p.default for name, p in parameters.items() if p.default is not p.empty}


def _in_float32(update: Callable[..., None]) -> Callable[..., None]:
    """The update computed in float32 for a float16 parameter, which alone is rounded."""

    def call(param: Any, grad: Any, state: dict[str, Any], step: int, group: dict[str, Any]) -> None:
        exact = wide(param)
        update(exact, wide(grad), state, step, group)
        param[...] = narrow(exact, param.dtype)

    return call


class Optimizer:
    """Base of every optimizer: a subclass gives its options, what it keeps of each element, and its formula.

    A parameter whose grad is None is left alone: no update, no decay, no step counted. Steps of float16 parameters are
    computed in float32; unlike PyTorch's, what is kept of them is float32, too.

    The parameters' arrays become views of one array per group, so that a step is a few passes over long vectors; a
    tensor or array that shared a parameter's memory before the optimizer was made no longer does.

    Args:
        params: parameters, (name, parameter) pairs as from `model.named_parameters()`, or dicts with such `params` and
            options of their own. With names, saved state is matched by name.
        defaults: every option and its value for groups that do not give it. Numbers are finite and at least 0.

    Raises ValueError for no parameters, one given twice, one that is no leaf, an option out of range or unknown;
    TypeError for what is no Tensor.

    A subclass writes `slots` and `update`, without `self`:

    >>> from tinygrad_edu import optim
    >>> import tinygrad_edu as tg
    >>> class SignSGD(optim.Optimizer):
    ...     def __init__(self, params, lr=0.1):
    ...         super().__init__(params, {"lr": lr})
    ...     @staticmethod
    ...     def update(param, grad, state, step, group):
    ...         param -= group["lr"] * (grad / abs(grad))
    >>> w = tg.tensor([1.0, 2.0], requires_grad=True)
    >>> (w * tg.tensor([3.0, -4.0])).sum().backward()
    >>> SignSGD([w]).step()
    >>> w.detach()
    tensor([0.9, 2.1])
    """

    takes: ClassVar[Literal["pieces", "vector", "parameter"]] = "pieces"
    """What `update` is given: pieces of a vector of many parameters, small enough for the cache; the whole of such a
    vector, where a kernel makes its own pieces; or each parameter alone in its shape, where elements are not alike."""

    param_groups: list[dict[str, Any]]

    def __init__(self, params: Any, defaults: Mapping[str, Any]) -> None:
        self.defaults = dict(defaults)
        self.param_groups = []
        self._layouts: list[Layout] = []
        groups: list[dict[str, Any]] = []
        for group in as_groups(params):
            groups.append(self._new_group(group, groups))
        self.param_groups = groups
        self._lay()

    @staticmethod
    def slots(group: dict[str, Any]) -> dict[str, float]:
        """What is kept of each element from step to step: name to first value."""
        return {}

    @staticmethod
    def update(param: Any, grad: Any, state: dict[str, Any], step: int, group: dict[str, Any]) -> None:
        """One step, in place, by the arrays' own arithmetic.

        param, grad and the arrays of state have one shape, see `takes`. grad is a copy, free to be overwritten, unless
        the update is marked by `leaves_grad`. step counts from 1 for each parameter by itself. group: its options.
        """
        raise NotImplementedError("an optimizer needs an update(param, grad, state, step, group)")

    def check(self, group: dict[str, Any]) -> None:
        """Raise ValueError or TypeError for an option out of its range.

        An option is of the kind of its default in `__init__`, or of what was given where there is none: a finite number
        of at least 0, True or False, or several numbers; betas lie in [0, 1).
        """
        kinds = _defaults(type(self).__init__)
        for key in self.defaults_of(group):
            value, what = group[key], f"{self._name}: {key}"
            default = value if kinds.get(key) is None else kinds[key]
            if isinstance(value, Tensor):
                raise ValueError(f"{what} must be a finite number of at least 0, not a Tensor: give its .item()")
            if isinstance(default, bool):
                flag(value, what)
            elif isinstance(default, int | float):
                if not 0 <= number(value, what, nan=True) < math.inf:
                    raise ValueError(f"{what} must be a finite number of at least 0, not {value}")
            elif isinstance(default, tuple):
                if not isinstance(value, tuple | list) or len(value) != len(default):
                    raise ValueError(f"{what} are {len(default)} numbers, not {value!r}")
                if any(isinstance(part, Tensor) for part in value):
                    raise ValueError(f"{what} must be numbers, not Tensors: give their .item()")
                parts = [number(part, what) for part in value]
                if key == "betas" and not all(0 <= beta < 1 for beta in parts):
                    raise ValueError(f"{what} are two numbers in [0, 1), not {value}")

    def rule(self, group: dict[str, Any]) -> type[Optimizer]:
        """Whose `slots`, `update` and `takes` hold for a group: this class's."""
        return type(self)

    def defaults_of(self, group: dict[str, Any]) -> dict[str, Any]:
        """The options of a group and their defaults."""
        return self.defaults

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Take more parameters, with options of their own; what is not given comes from the optimizer's arguments."""
        self.param_groups.append(self._new_group(param_group, self.param_groups))

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
            (group, flat, flat.gather(f"{self._name}.step", self._lends(group)))
            for group, layout in zip(self.param_groups, self._layouts)
            for flat in layout.flats
        ]
        for group, flat, runs in found:
            for begin, end, count in runs:
                devices.settle(flat.values)
                self._update(group, flat, begin, end, count)
                flat.written(begin, end, count)
        return loss

    @property
    def state(self) -> dict[Tensor, dict[str, Any]]:
        """What is kept of each parameter that has made a step: its "step" and its slots, as Tensors on their memory."""
        return {
            p: {"step": entry[0], **{name: wrap(Tensor, array) for name, array in entry[1].items()}}
            for p, entry in zip(self._parameters(), self._kept())
            if entry is not None
        }

    def state_dict(self) -> dict[str, Any]:
        """A copy of the state, laid out as PyTorch's.

        "state": number of the parameter (counted through the groups) to its "step" (int) and its slots (Tensors of its
        shape, by name), for each that was updated at least once. "param_groups": the options, "params" as numbers,
        "param_shapes", and "param_names" where there are names; all of it plain lists and numbers.
        """
        groups: list[dict[str, Any]] = []
        slots: list[dict[str, float]] = []
        for group in self.param_groups:
            parameters = group["params"]
            saved = {k: list(v) if isinstance(v, tuple) else v for k, v in group.items() if k != "params"}
            saved["params"] = list(range(len(slots), len(slots) + len(parameters)))
            saved["param_shapes"] = [list(p.shape) for p in parameters]
            groups.append(saved)
            slots += [self.rule(group).slots(group)] * len(parameters)
        state = {
            at: {"step": entry[0], **{name: tensor(entry[1][name]) for name in slots[at]}}
            for at, entry in enumerate(self._kept())
            if entry is not None
        }
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over slots, step counts and options. Everything is checked first: all of it or nothing.

        Differs from PyTorch: with names on both sides each parameter gets the state of its name, in whatever order;
        without any, position decides. Either way the shapes must be equal, and names on one side only are refused.

        Raises ValueError naming what differs.
        """
        where = f"{self._name}.load_state_dict"
        try:
            saved, state = state_dict["param_groups"], state_dict["state"]
            numbers = match(saved, self.param_groups)
            groups = [self._loaded(theirs, ours) for theirs, ours in zip(saved, self.param_groups)]
        except KeyError as error:
            raise ValueError(f"{where}: the state lacks {error}") from None
        except ValueError as error:
            raise ValueError(f"{where}: nothing was loaded; {error}") from None
        owners = [(p, self.rule(group).slots(group)) for group in groups for p in group["params"]]
        kept: Kept = {}
        for key, entry in state.items():
            if int(key) not in numbers:
                raise ValueError(f"{where}: state of parameter {key}, which is in no group of the state")
            p, slots = owners[numbers[int(key)]]
            if missing := [name for name in ("step", *slots) if name not in entry]:
                raise ValueError(f"{where}: the state of parameter {key} lacks {', '.join(missing)}")
            arrays = {}
            for name in slots:
                value = entry[name].array if isinstance(entry[name], Tensor) else entry[name]
                if tuple(value.shape) != p.shape:
                    raise ValueError(
                        f"{where}: {name} of parameter {key} has shape {tuple(value.shape)}, its parameter {p.shape}"
                    )
                arrays[name] = devices.new_array(value, kept_dtype(p.array.dtype), devices.device_of(p.array))
            kept[id(p)] = int(entry["step"]), arrays
        for group, loaded in zip(self.param_groups, groups):
            group.update(loaded)
        self._layouts = [Layout(g["params"], self.rule(g).slots(g), kept) for g in self.param_groups]

    def _loaded(self, theirs: Mapping[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
        """The group that ours becomes with the options of a saved one."""
        plain = {k: v for k, v in theirs.items() if k not in ("params", "param_names", "param_shapes")}
        defaults = self.defaults_of(plain)
        group = plain | {k: tuple(theirs[k]) if isinstance(v, tuple) else theirs[k] for k, v in defaults.items()}
        group["params"] = ours["params"]
        self.check(group)
        return group

    def _new_group(self, group: dict[str, Any], present: list[dict[str, Any]]) -> dict[str, Any]:
        whole = new_group(group, self.defaults_of(group), present)
        self.check(whole)
        return whole

    def _update(self, group: dict[str, Any], flat: Flat, begin: int, end: int, step: int) -> None:
        rule = self.rule(group)
        param, grad, state = flat.part(begin, end)
        step_of = rule.update if param.dtype != dtypes.float16 else _in_float32(rule.update)
        xp = library.module_of(param)
        if group.get("maximize"):
            xp.negative(grad, out=grad)
        if rule.takes == "parameter":
            parts = flat.parts(begin, end)
        elif rule.takes == "pieces" and xp.__name__ == "numpy":
            parts = flat.pieces(begin, end, _PIECE)
        else:
            step_of(param, grad, state, step, group)
            return

        def update(start: int, stop: int) -> None:
            with library.quiet(param):  # 0/0 with eps = 0 is NaN, as in PyTorch
                for at, part in parts:
                    if start <= at < stop:
                        step_of(*part, step, group)

        if xp.__name__ == "numpy":
            crew.shared(update, param.size)
        else:
            update(0, param.size)

    def _lends(self, group: dict[str, Any]) -> bool:
        return hasattr(self.rule(group).update, "leaves_grad") and not group.get("maximize")

    def _lay(self) -> None:
        """Lay the parameters of a group together again where one is no longer a view of the group's array: it was
        copied, moved, cast, given a new array, or added; or where an option asks for a slot that is not there."""
        for at, group in enumerate(self.param_groups):
            slots = self.rule(group).slots(group)
            if at == len(self._layouts):
                self._layouts.append(Layout(group["params"], slots, {}))
                continue
            layout = self._layouts[at]
            if not (slots.keys() <= layout.slots.keys() and layout.holds(group["params"])):
                self._layouts[at] = Layout(group["params"], {**layout.slots, **slots}, layout.kept())

    def _parameters(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def _kept(self) -> list[tuple[int, dict[str, Any]] | None]:
        """(steps made, state) of every parameter in order, None for one that was never updated."""
        kept = {at: entry for layout in self._layouts for at, entry in layout.kept().items()}
        return [kept.get(id(p)) for p in self._parameters()]

    @property
    def _name(self) -> str:
        return type(self).__name__

    def __getstate__(self) -> dict[str, Any]:
        slots = [layout.slots for layout in self._layouts]
        return {**vars(self), "_layouts": slots, "_kept": self._kept()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        entries, slots = state.pop("_kept"), state.pop("_layouts")
        vars(self).update(state)
        kept = {id(p): entry for p, entry in zip(self._parameters(), entries) if entry is not None}
        self._layouts = [Layout(group["params"], of, kept) for group, of in zip(self.param_groups, slots)]

    def __repr__(self) -> str:
        rows = [
            f"  {len(group['params'])} parameters: "
            + ", ".join(f"{key}={group[key]}" for key in self.defaults_of(group) if group[key] is not False)
            for group in self.param_groups
        ]
        return "\n".join([f"{self._name}(", *rows, ")"])
