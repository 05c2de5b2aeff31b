"""A record in which every fused op is replaced by the primitive ops of its definition."""

from __future__ import annotations

from dataclasses import replace

from tinygrad_edu.graph.record import Application, Branch, Group, Name, Record, Saved, Sum


def opened(record: Record) -> Record:
    """The record with all definitions put in place: their values, ops, gradient branches and sums under new numbers.

    The ops of one definition form a group. Values that the fused op read and made stay who they are. An op whose
    definition is one other op stays as it is.
    """
    if not any(application.definition is not None for application in record.forward):
        return record
    return _Opening(record).made


class _Opening:
    """The record being made, and where everything of the given one and of its definitions went."""

    def __init__(self, record: Record) -> None:
        self.given = record
        self.made = Record(
            record.title,
            record.loss,
            values=[replace(value) for value in record.values],
            calls=record.calls,
            groups=[replace(group) for group in record.groups],
            unread=record.unread,
            inputs=record.inputs,
            outputs=record.outputs,
        )
        self.forward: dict[int, int] = {}  # application of the given record -> of the made one
        self.backward: dict[int, int] = {}
        self.branches: dict[int, int] = {}
        self.inner: dict[int, _Inner] = {}  # by application of the given record
        for application in record.forward:
            if application.definition is None or not self._open(application):
                self.forward[application.id] = len(self.made.forward)
                self.made.forward.append(replace(application, id=len(self.made.forward), definition=None))
        for value in self.made.values[: len(record.values)]:
            if value.made_by is not None and not self._is_backward(value.id):
                value.made_by = self.forward.get(value.made_by, value.made_by)
        for inner in self.inner.values():
            inner.outputs_made(self.made)
        self._gradients()

    def _is_backward(self, number: int) -> bool:
        made_by = self.given.values[number].made_by
        forward = self.given.forward
        return made_by is None or made_by >= len(forward) or number not in forward[made_by].outputs

    def _open(self, application: Application) -> bool:
        definition = self.given.definitions[application.definition]  # type: ignore[index]
        made_by = [definition.values[output.value].made_by for output in definition.outputs]
        if len(definition.forward) < 2 or None in made_by or len(made_by) != len(application.outputs):
            return False
        self.inner[application.id] = _Inner(definition, application, self.made)
        return True

    def _gradients(self) -> None:
        """The backward pass as it ran, that of a definition in place of a fused op's."""
        given, made = self.given, self.made
        sums: dict[int, list[Sum]] = {}
        for entry in given.sums:
            sums.setdefault(entry.after, []).append(entry)
        begun: set[int] = set()
        for branch in given.branches:
            inner = self.inner.get(branch.application)
            if inner is None:
                self.branches[branch.id] = len(made.branches)
                ran = [self._backward_op(number, branch=len(made.branches)) for number in branch.applications]
                number = self.forward[branch.application]
                made.branches.append(replace(branch, id=len(made.branches), application=number, applications=ran))
            else:
                if branch.application not in begun:
                    begun.add(branch.application)
                    inner.go_back(made)
                self.branches[branch.id] = len(made.branches) - 1
            for entry in sums.get(branch.id, []):
                number = len(made.sums)
                ran = [self._backward_op(i, sum=number) for i in entry.applications]
                made.sums.append(Sum(number, entry.value, self.branches[branch.id], ran))

    def _backward_op(self, number: int, branch: int | None = None, sum: int | None = None) -> int:
        application = replace(self.given.backward[number], id=len(self.made.backward), branch=branch, sum=sum)
        self.made.backward.append(application)
        for made in application.outputs:
            if self._is_backward(made):
                self.made.values[made].made_by = application.id
        return application.id


class _Inner:
    """One definition put in place of one application."""

    def __init__(self, definition: Record, application: Application, made: Record) -> None:
        self.definition, self.application = definition, application
        arrays = [i for i in application.inputs if i is not None and made.values[i].kind != "number"]
        self.values = dict(zip(definition.inputs, arrays, strict=False))
        self.values |= {o.value: i for o, i in zip(definition.outputs, application.outputs, strict=True)}
        for value in definition.values:
            if value.id not in self.values:
                self.values[value.id] = len(made.values)
                names = [Name(n.text, n.how, n.depth, (application.call, -1 - application.id)) for n in value.names]
                made.values.append(replace(value, id=len(made.values), names=names))
        self.first = len(made.forward)
        group = len(made.groups)
        made.groups.append(Group(group, application.op, application.call, application.group, application.static))
        for inner in definition.groups:
            parent = group if inner.parent is None else group + 1 + inner.parent
            made.groups.append(replace(inner, id=len(made.groups), call=application.call, parent=parent))
        for inner_op in definition.forward:
            around = group if inner_op.group is None else group + 1 + inner_op.group
            made.forward.append(self._placed(inner_op, len(made.forward), around))

    def _placed(self, application: Application, number: int, group: int | None) -> Application:
        return replace(
            application,
            id=number,
            inputs=tuple(None if i is None else self.values[i] for i in application.inputs),
            outputs=tuple(self.values[i] for i in application.outputs),
            call=self.application.call,
            group=group,
            line=application.line or self.application.line,
            saved=[Saved(s.name, self.values[s.value], s.bytes, s.counted) for s in application.saved],
        )

    def outputs_made(self, made: Record) -> None:
        """Note on every value which op of the definition made it."""
        for application in self.definition.forward:
            for i, output in enumerate(application.outputs):
                value = made.values[self.values[output]]
                value.made_by, value.output = self.first + application.id, i

    def go_back(self, made: Record) -> None:
        """Add the branches and sums of the definition, and the ops that they ran."""
        definition = self.definition
        first, branches, sums = len(made.backward), len(made.branches), len(made.sums)
        for application in definition.backward:
            placed = self._placed(application, len(made.backward), None)
            placed.branch = None if application.branch is None else branches + application.branch
            placed.sum = None if application.sum is None else sums + application.sum
            made.backward.append(placed)
        for branch in definition.branches:
            made.branches.append(self._branch(branch, len(made.branches), first))
        for entry in definition.sums:
            ran = [first + number for number in entry.applications]
            made.sums.append(Sum(len(made.sums), self.values[entry.value], branches + entry.after, ran))

    def _branch(self, branch: Branch, number: int, first: int) -> Branch:
        return replace(
            branch,
            id=number,
            application=self.first + branch.application,
            value=self.values[branch.value],
            gradient=self.values[branch.gradient],
            applications=[first + i for i in branch.applications],
        )
