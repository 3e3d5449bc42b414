"""Gradients through changes in place, in Tern and in PyTorch: first and second ones, views, hooks, and what tensors keep."""

import gc
import weakref

import pytest

torch = pytest.importorskip("torch")

import tern  # noqa: E402
from test_autograd_like_pytorch import outcome  # noqa: E402
from test_like_pytorch import close  # noqa: E402


def program(function):
    PROGRAMS.append(function)
    return function


PROGRAMS = []


def leaf(T):
    return T.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=T.float64, requires_grad=True)


def first_and_second(T, y, x):
    (first,) = T.autograd.grad((y**2).sum(), x, create_graph=True)
    return first, *T.autograd.grad((first * first).sum(), x)


# ---- second derivatives ----


@program
def an_argument_is_saved_with_what_it_was(T):
    x = leaf(T)
    y = x * 1
    y.mul_(x)
    y.sin_()
    return first_and_second(T, y, x)


@program
def a_tensor_without_history_gets_one_and_changes_again(T):
    x = leaf(T)
    y = T.ones(2, 3, dtype=T.float64)
    y.mul_(x)
    y.mul_(x)
    return first_and_second(T, y, x)


@program
def third_derivatives(T):
    x = leaf(T)
    y = x * 1
    y.sin_()
    y.mul_(x)
    y[0].tanh_()
    (first,) = T.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = T.autograd.grad(first.sum(), x, create_graph=True)
    return first, second, *T.autograd.grad(second.sum(), x)


@program
def through_a_row(T):
    x = leaf(T)
    y = x * 1
    y[0].mul_(x[1])
    return first_and_second(T, y, x)


@program
def a_saved_result_through_a_row(T):
    x = leaf(T)
    y = x * 1
    y[0].exp_()
    return first_and_second(T, y, x)


@program
def through_a_row_of_a_base_without_history(T):
    x = leaf(T)
    y = T.ones(2, 3, dtype=T.float64)
    y[0].mul_(x[0])
    y[0].sin_()
    return first_and_second(T, y, x)


@program
def through_a_row_of_a_column_major_base(T):
    x = leaf(T)
    y = x.t() * 1
    y[0].mul_(x[:, 1])
    return first_and_second(T, y, x)


@program
def a_saved_result_through_a_row_of_a_column_major_base(T):
    x = leaf(T)
    y = x.t() * 1
    y[0].exp_()
    return first_and_second(T, y, x)


@program
def a_view_that_follows_a_column_major_base(T):
    x = leaf(T)
    y = x.t() * 1
    v = y[:, 1]
    y.sin_()
    return first_and_second(T, v, x)


@program
def through_a_row_of_a_base_with_gaps(T):
    x = leaf(T)
    y = T.zeros(20, dtype=T.float64).as_strided((2, 3), (9, 2)).detach()
    y.copy_(x)
    y[1].sin_()
    return first_and_second(T, y, x)


@program
def a_gradient_that_lies_inside_other_memory(T):
    x = leaf(T)
    y = x * 1
    y[0].mul_(x[1])
    return T.autograd.grad(y, x, T.arange(12, dtype=T.float64).view(2, 2, 3)[1])


@program
def through_the_parts_of_complex_numbers(T):
    x = leaf(T)
    y = T.complex(x, x.flip(1))
    y.real.mul_(x)
    y.imag[0].sin_()
    return first_and_second(T, T.view_as_real(y), x)


@program
def through_complex_numbers_made_of_parts(T):
    x = leaf(T)
    y = x.view(3, 2) * 1
    T.view_as_complex(y)[1:].mul_(2j)
    return first_and_second(T, y, x)


@program
def a_view_that_turns_leaves_its_base_alone(T):
    x = leaf(T)
    y = x * 1
    v = y.view(3, 2)
    v.t_()
    v.mul_(x)
    return [g.contiguous() for g in first_and_second(T, y, x)]


@program
def parts_of_a_concatenation(T):
    x = leaf(T)
    y = T.cat([x, x * x])
    y[1:3].mul_(x)
    return first_and_second(T, y, x)


@program
def accumulated_index_put(T):
    x = leaf(T)
    y = x * 1
    y.index_put_((T.tensor([0, 0]),), x * x, accumulate=True)
    return first_and_second(T, y.sin_(), x)


@program
def fills_and_copies(T):
    x = leaf(T)
    y = x**2
    y[0].zero_()
    y[0].add_(x[1] ** 2)
    y[:, 1].fill_(x.prod())
    y.t()[2].copy_(x[:, 0] ** 3)
    y.masked_fill_(x > 5, x.sum() ** 2)
    return first_and_second(T, y, x)


@program
def a_graph_is_freed_after_a_change_through_a_view(T):
    x = leaf(T)
    y = x * 1
    y[0].exp_()
    z = y.sum()
    z.backward()
    z.backward()


# ---- gradients that tensors keep ----


@program
def a_kept_gradient_accumulates(T):
    x = leaf(T)
    y = x * 2
    y.retain_grad()
    z = (y * y).sum()
    z.backward(retain_graph=True)
    z.backward()
    return y.grad


@program
def a_kept_gradient_has_a_graph_and_memory_of_its_own(T):
    x = leaf(T)
    y = x * 2
    y.retain_grad()
    z = (y**3).sum()
    z.backward(create_graph=True)
    z.backward(create_graph=True)
    return y.grad, *T.autograd.grad(y.grad.sum(), x)


@program
def the_gradient_of_what_it_is_after_a_change(T):
    x = leaf(T)
    y = x * 2
    v = y[0]
    y.retain_grad()
    v.retain_grad()
    y.mul_(3)
    y[1].mul_(2)
    ((y * y).sum() + (v * v).sum()).backward()
    return y.grad, v.grad, x.grad


@program
def a_tensor_that_keeps_its_gradient_ends_after_a_change(T):
    x = leaf(T)
    y = x * 2
    y.retain_grad()
    z = y + 1
    y.detach_()
    y = None
    z = z + x
    z.retain_grad()
    w = z.sum()
    z.add_(1)
    z = None
    w.backward()


@program
def the_parts_of_an_unsafe_split_are_written_to(T):
    x = leaf(T)
    a, b, c = T.unsafe_chunk(x * 2, 3, 1)
    d, e = T.unsafe_split(x * 3, 1)
    f, g = T.unsafe_split_with_sizes(x * 4, [1, 2], 1)
    y = a.sigmoid_() * b.tanh_() + c.add_(1) + (d.exp_() * e).sum() + (f.sin_() * g.mul_(2)).sum()
    return first_and_second(T, y, x)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_same(function):
    want, got = outcome(torch, function), outcome(tern, function)
    assert close(want, got), f"PyTorch: {want}\nTern:    {got}"


class Mark:
    pass


@pytest.mark.parametrize("change", [lambda y: y.exp_(), lambda y: y.sin_(), lambda y: y[0].exp_(), lambda y: y[0].sin_()], ids=["exp", "sin", "exp of a row", "sin of a row"])
def test_what_is_saved_does_not_keep_itself(change):
    x = leaf(tern)
    y = x * 1
    change(y)
    y.grad_fn.metadata["mark"] = mark = Mark()
    (first,) = tern.autograd.grad((y**2).sum(), x, create_graph=True)
    end = weakref.ref(mark)
    del y, mark
    assert end() is not None  # held by the graph of the gradient
    del first
    gc.collect()
    assert end() is None
