"""The suite for a GPU, run on the stand-in, so that it is known to work before a GPU sees it."""

from tests.gpu.test_against_numpy import (
    test_a_gpu_of_ones_own_choice_by_number,
    test_adamw_kernel_to_the_last_bit,
    test_adding_and_extremes_where_two_meet,
    test_dropout_masks_are_numpys_to_the_last_bit,
    test_ids_out_of_range_are_refused,
    test_softmax_kernel,
    test_training_and_what_comes_of_it,
)

__all__ = [
    "test_a_gpu_of_ones_own_choice_by_number",
    "test_adamw_kernel_to_the_last_bit",
    "test_adding_and_extremes_where_two_meet",
    "test_dropout_masks_are_numpys_to_the_last_bit",
    "test_ids_out_of_range_are_refused",
    "test_softmax_kernel",
    "test_training_and_what_comes_of_it",
]
