"""Writes pointwise_expected.inc: what PyTorch computes for each operator on a few numbers and edge cases.
Run with a Python that has torch: python tests/kernels/generate_expected.py > tests/kernels/pointwise_expected.inc"""
import torch
import torch.nn.functional as F

inf, nan = float("inf"), float("nan")
X = [0.0, -0.0, 0.25, -0.25, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.5, -2.5, 3.75, -4.0, 10.0, -10.0, 0.001, -0.001,
     20.5, -20.5, 88.0, -100.0, 1e-30, 1e30, -1e30, inf, -inf, nan, 0.999, -0.999, 7.3, 0.9, 1.1, 100.0]
A = [1.0, -1.0, 5.5, -5.5, 5.5, -5.5, 0.0, -0.0, 3.0, inf, nan, 2.0, -inf, 7.25, 0.3, 1e10, 0.0]
B = [2.0, 2.0, 2.0, 2.0, -2.0, -2.0, 2.0, -3.0, 0.0, 2.0, 1.0, nan, -inf, 0.5, 3.1, 7.0, 0.0]
I = [7, -7, 7, -7, 0, 1, -1, 100, -128, 5, 3, 9]
J = [2, 2, -2, -2, 3, 5, 5, 7, -1, 3, 4, -4]

unary = {n: getattr(torch, n) for n in (
    "neg abs sign exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal square sin cos tan asin acos atan sinh "
    "cosh tanh asinh acosh atanh sigmoid relu erf erfc erfinv lgamma digamma ceil floor round trunc frac positive "
    "selu angle").split()}
unary |= {"silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
          "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "mish": F.mish, "log_sigmoid": F.logsigmoid,
          "relu6": F.relu6, "softsign": F.softsign, "tanhshrink": F.tanhshrink}
with_params = {"softplus": (lambda x: F.softplus(x, 2.0, 20.0), (2.0, 20.0)),
               "elu": (lambda x: F.elu(x, 1.5), (1.5, 1.0, 1.0)),
               "celu": (lambda x: F.celu(x, 1.5), (1.5,)),
               "leaky_relu": (lambda x: F.leaky_relu(x, 0.1), (0.1,)),
               "clamp": (lambda x: torch.clamp(x, -1.25, 2.0), (-1.25, 2.0)),
               "clamp_min": (lambda x: torch.clamp(x, min=-1.25), (-1.25,)),
               "clamp_max": (lambda x: torch.clamp(x, max=2.0), (2.0,)),
               "threshold": (lambda x: F.threshold(x, 0.5, -3.0), (0.5, -3.0)),
               "softshrink": (lambda x: F.softshrink(x, 0.5), (0.5,)),
               "hardshrink": (lambda x: F.hardshrink(x, 0.5), (0.5,)),
               "nan_to_num": (lambda x: torch.nan_to_num(x, 1.0, 2.0, 3.0), (1.0, 2.0, 3.0)),
               "logit": (lambda x: torch.logit(x, 0.01), (0.01,)),
               "pow_scalar": (lambda x: torch.pow(x, 2.5), (2.5,))}
binary = {n: getattr(torch, n) for n in (
    "add sub mul div remainder fmod pow atan2 maximum minimum fmax fmin hypot logaddexp logaddexp2 copysign "
    "nextafter xlogy heaviside").split()}
binary |= {"div_floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
           "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc")}
aten = torch.ops.aten
backward = {"sigmoid_backward": (aten.sigmoid_backward, ()), "tanh_backward": (aten.tanh_backward, ()),
            "gelu_backward": (aten.gelu_backward, ()),
            "gelu_tanh_backward": (lambda g, x: aten.gelu_backward(g, x, approximate="tanh"), ()),
            "silu_backward": (aten.silu_backward, ()),
            "threshold_backward": (lambda g, x: aten.threshold_backward(g, x, 0.5), (0.5,)),
            "softplus_backward": (lambda g, x: aten.softplus_backward(g, x, 2.0, 20.0), (2.0, 20.0)),
            "elu_backward": (lambda g, x: aten.elu_backward(g, 1.5, 1.0, 1.0, False, x), (1.5, 1.0, 1.0, 0.0)),
            "leaky_relu_backward": (lambda g, x: aten.leaky_relu_backward(g, x, 0.1, False), (0.1,)),
            "hardtanh_backward": (lambda g, x: aten.hardtanh_backward(g, x, -1.25, 2.0), (-1.25, 2.0)),
            "hardsigmoid_backward": (aten.hardsigmoid_backward, ()),
            "hardswish_backward": (aten.hardswish_backward, ()), "mish_backward": (aten.mish_backward, ())}
integer = {n: getattr(torch, n) for n in ("add sub mul remainder fmod maximum minimum gcd lcm bitwise_and bitwise_or "
           "bitwise_xor bitwise_left_shift bitwise_right_shift").split()}
integer |= {"div_floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
            "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc")}


def number(v):
    v = float(v)
    return "kNan" if v != v else "kInf" if v == inf else "-kInf" if v == -inf else repr(v)


def line(name, out, params=()):
    print('    {"%s", {%s}, {%s}},' % (name, ", ".join(map(number, params)), ", ".join(map(number, out))))


def table(kind, rows):
    print("const Case %s[] = {" % kind)
    for row in rows:
        line(*row)
    print("};")


def flat(name, values):
    print("const std::vector<double> %s = {%s};" % (name, ", ".join(map(number, values))))


print("// Written by generate_expected.py with PyTorch %s." % torch.__version__.split("+")[0])
x, a, b = torch.tensor(X), torch.tensor(A), torch.tensor(B)
i, j = torch.tensor(I, dtype=torch.int8), torch.tensor(J, dtype=torch.int8)
bx = torch.tensor([v for v in X if abs(v) < 50])
g = torch.linspace(-1, 2, len(bx))
flat("kUnaryIn", X), flat("kA", A), flat("kB", B), flat("kI", I), flat("kJ", J)
flat("kGrad", g.tolist()), flat("kBackwardIn", bx.tolist())
table("kUnary", [(n, f(x).tolist()) for n, f in unary.items()] + [(n, f(x).tolist(), p) for n, (f, p) in with_params.items()])
table("kBinary", [(n, f(a, b).tolist()) for n, f in binary.items()])
table("kBackward", [(n, f(g, bx).tolist(), p) for n, (f, p) in backward.items()])
table("kInteger", [(n, f(i, j).tolist()) for n, f in integer.items()])
