"""The tape and its reverse pass, which know no op and no array library.

In reading order: `tape` has the values, the class of all ops and the record of each that is applied; `save_plan` works
out what an op saves; `reverse` is the pass; `backward` adds what it found to `.grad`; `hooks` are functions that
gradients go through; `modes` say what a thread or task computes under.
"""
