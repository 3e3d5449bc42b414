"""Writes random_expected.inc: the first numbers and a checksum of each of torch's CPU distributions, seed 5.
Run on a machine where torch does not use MKL's generators (not an Intel processor)."""
import torch

f16, bf16, f32, f64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
types = {"kHalf": f16, "kBFloat16": bf16, "kFloat": f32, "kDouble": f64}
ints = {"kByte": torch.uint8, "kChar": torch.int8, "kShort": torch.int16, "kInt": torch.int32, "kLong": torch.int64, "kBool": torch.bool}


def line(what, dtype, n, a, b, f):
    torch.manual_seed(5)
    x = f()
    left = int.from_bytes(bytes(torch.get_rng_state()[8:12].tolist()), "little")
    x = x.to(torch.float64).flatten()
    weights = torch.arange(1, x.numel() + 1, dtype=torch.float64)
    total = (x * weights).sum().item()
    head = ", ".join(repr(v) for v in x[:4].tolist())
    print('    {"%s", %s, %d, %r, %r, {%s}, %r, %d},' % (what, dtype, n, a, b, head, total, left))


print("// Written by generate_random.py with PyTorch %s." % torch.__version__.split("+")[0])
print("const Expected kExpected[] = {")
for k, t in types.items():
    for n in (5, 1000):
        line("uniform", k, n, 0.0, 1.0, lambda: torch.rand(n, dtype=t))
    line("uniform", k, 100, -0.3, 0.7, lambda: torch.empty(100, dtype=t).uniform_(-0.3, 0.7))
    for n in (3, 16, 20, 1000):
        line("normal", k, n, 0.0, 1.0, lambda: torch.randn(n, dtype=t))
    line("normal", k, 40, 1.5, 0.25, lambda: torch.empty(40, dtype=t).normal_(1.5, 0.25))
    line("exponential", k, 100, 1.5, 0.0, lambda: torch.empty(100, dtype=t).exponential_(1.5))
    line("log_normal", k, 20, 0.5, 0.25, lambda: torch.empty(20, dtype=t).log_normal_(0.5, 0.25))
    line("cauchy", k, 5, 0.5, 2.0, lambda: torch.empty(5, dtype=t).cauchy_(0.5, 2.0))
    line("bernoulli_tensor", k, 100, 0.25, 0.0, lambda: torch.bernoulli(torch.full((100,), 0.25, dtype=t)))
    line("multinomial", k, 50, 1.0, 0.0, lambda: torch.multinomial(torch.arange(1, 6).to(t), 50, replacement=True))
    line("multinomial", k, 4, 0.0, 0.0, lambda: torch.multinomial(torch.arange(1, 6).to(t), 4))
for k, t in (types | ints).items():
    line("bernoulli", k, 100, 0.25, 0.0, lambda: torch.empty(100, dtype=t).bernoulli_(0.25))
    line("random", k, 100, 0.0, 0.0, lambda: torch.empty(100, dtype=t).random_())
    line("random_from_to", k, 100, 0.0, 2.0, lambda: torch.empty(100, dtype=t).random_(0, 2))
line("random_from_to", "kLong", 100, -5.0, 1e12, lambda: torch.randint(-5, 10**12 - 5, (100,)))
line("random_from_to", "kLong", 100, 0.0, float(2**28), lambda: torch.randint(0, 2**28, (100,)))
line("random_from_to", "kLong", 100, 0.0, float(2**28 - 1), lambda: torch.randint(0, 2**28 - 1, (100,)))
line("geometric", "kLong", 100, 0.25, 0.0, lambda: torch.empty(100, dtype=torch.int64).geometric_(0.25))
for n in (1, 10, 1000):
    line("randperm", "kLong", n, 0.0, 0.0, lambda: torch.randperm(n))
line("randperm", "kInt", 100, 0.0, 0.0, lambda: torch.randperm(100, dtype=torch.int32))
print("};")
torch.manual_seed(5)
torch.randn(3, dtype=f64)
state = torch.get_rng_state()
print("const int kStateBytes[] = {%s};" % ", ".join(str(int(v)) for v in state[[0, 8, 12, 16, 24, 25, 32, 33]]))
print("const uint64_t kStateSum = %du;" % int((state.to(torch.int64) * torch.arange(1, state.numel() + 1)).sum()))
