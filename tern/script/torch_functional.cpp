// torch's own functions that are more than one operator, written in the language itself and compiled when a
// script first names them.
#include "tern/base/format.h"
#include "tern/script/functional.h"

namespace tern::script {
namespace {

constexpr std::string_view torch_functional = R"script(
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    if compute_mode == "use_mm_for_euclid_dist_if_necessary":
        return torch.ops.aten.cdist(x1, x2, p, None)
    if compute_mode == "use_mm_for_euclid_dist":
        return torch.ops.aten.cdist(x1, x2, p, 1)
    if compute_mode == "donot_use_mm_for_euclid_dist":
        return torch.ops.aten.cdist(x1, x2, p, 2)
    raise ValueError("{} is not a valid value for compute_mode".format(compute_mode))

def _tensordot_last(a: Tensor, b: Tensor, count: int) -> Tensor:
    if count < 0:
        raise RuntimeError("tensordot expects dims >= 0, but got dims={}".format(count))
    if count > min(a.dim(), b.dim()):
        raise RuntimeError("tensordot expects dims < ndim_a or ndim_b, but got dims={}".format(count))
    first: List[int] = []
    second: List[int] = []
    for i in range(count):
        first.append(i - count)
        second.append(i)
    return torch.ops.aten.tensordot(a, b, first, second)

@torch.jit._overload
def tensordot(a: Tensor, b: Tensor, dims: Tensor, out: Optional[Tensor] = None) -> Tensor: pass

@torch.jit._overload
def tensordot(a: Tensor, b: Tensor, dims: int = 2, out: Optional[Tensor] = None) -> Tensor: pass

@torch.jit._overload
def tensordot(a: Tensor, b: Tensor, dims: Tuple[List[int], List[int]], out: Optional[Tensor] = None) -> Tensor: pass

@torch.jit._overload
def tensordot(a: Tensor, b: Tensor, dims: List[List[int]], out: Optional[Tensor] = None) -> Tensor: pass

def tensordot(a: Tensor, b: Tensor, dims, out: Optional[Tensor] = None) -> Tensor:
    if isinstance(dims, int):
        result = _tensordot_last(a, b, dims)
    elif isinstance(dims, Tensor):
        if dims.numel() > 1:
            first: List[int] = []
            second: List[int] = []
            for i in range(dims.size(1)):
                first.append(int(dims[0][i]))
                second.append(int(dims[1][i]))
            result = torch.ops.aten.tensordot(a, b, first, second)
        else:
            result = _tensordot_last(a, b, int(dims))
    else:
        result = torch.ops.aten.tensordot(a, b, dims[0], dims[1])
    return result if out is None else out.resize_(result.size()).copy_(result)

def stft(input: Tensor, n_fft: int, hop_length: Optional[int] = None, win_length: Optional[int] = None, window: Optional[Tensor] = None, center: bool = True, pad_mode: str = "reflect", normalized: bool = False, onesided: Optional[bool] = None, return_complex: Optional[bool] = None, align_to_window: Optional[bool] = None) -> Tensor:
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    signal = input
    if center:
        shape = [1] * (3 - input.dim()) + list(input.size())
        padded = torch.ops.aten.pad(input.view(shape), [n_fft // 2, n_fft // 2], pad_mode)
        signal = padded.view(padded.shape[-input.dim():])
    return torch.ops.aten.stft(signal, n_fft, hop_length, win_length, window, normalized, onesided, return_complex, align_to_window=align_to_window)

def _unique_impl(input: Tensor, sorted: bool, return_inverse: bool, return_counts: bool, dim: Optional[int]) -> Tuple[Tensor, Tensor, Tensor]:
    if dim is not None:
        return torch.ops.aten.unique_dim(input, dim, sorted, return_inverse, return_counts)
    return torch.ops.aten._unique2(input, sorted, return_inverse, return_counts)

def unique(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: Optional[int] = None) -> Tensor:
    return _unique_impl(input, sorted, False, False, dim)[0]

def unique_with_inverse(input: Tensor, sorted: bool = True, return_inverse: bool = True, return_counts: bool = False, dim: Optional[int] = None) -> Tuple[Tensor, Tensor]:
    output, inverse, counts = _unique_impl(input, sorted, True, False, dim)
    return output, inverse

def unique_with_counts(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = True, dim: Optional[int] = None) -> Tuple[Tensor, Tensor]:
    output, inverse, counts = _unique_impl(input, sorted, False, True, dim)
    return output, counts

def unique_with_inverse_and_counts(input: Tensor, sorted: bool = True, return_inverse: bool = True, return_counts: bool = True, dim: Optional[int] = None) -> Tuple[Tensor, Tensor, Tensor]:
    return _unique_impl(input, sorted, True, True, dim)

def unique_consecutive(input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: Optional[int] = None) -> Tensor:
    return torch.ops.aten.unique_consecutive(input, False, False, dim)[0]

def unique_consecutive_with_inverse(input: Tensor, return_inverse: bool = True, return_counts: bool = False, dim: Optional[int] = None) -> Tuple[Tensor, Tensor]:
    output, inverse, counts = torch.ops.aten.unique_consecutive(input, True, False, dim)
    return output, inverse

def unique_consecutive_with_counts(input: Tensor, return_inverse: bool = False, return_counts: bool = True, dim: Optional[int] = None) -> Tuple[Tensor, Tensor]:
    output, inverse, counts = torch.ops.aten.unique_consecutive(input, False, True, dim)
    return output, counts

def unique_consecutive_with_inverse_and_counts(input: Tensor, return_inverse: bool = True, return_counts: bool = True, dim: Optional[int] = None) -> Tuple[Tensor, Tensor, Tensor]:
    return torch.ops.aten.unique_consecutive(input, True, True, dim)

def norm(input: Tensor, p: Optional[number], dim: Optional[BroadcastingList1[int]] = None, keepdim: bool = False, out: Optional[Tensor] = None, dtype: Optional[int] = None) -> Tensor:
    if p is None:
        result = torch.ops.aten.linalg_vector_norm(input, 2, dim, keepdim, dtype=dtype)
    else:
        result = torch.ops.aten.linalg_vector_norm(input, p, dim, keepdim, dtype=dtype)
    return result if out is None else out.resize_(result.size()).copy_(result)

def norm_named(input: Tensor, p: str = "fro", dim: Optional[BroadcastingList1[int]] = None, keepdim: bool = False, out: Optional[Tensor] = None, dtype: Optional[int] = None) -> Tensor:
    dims: List[int] = []
    if dim is None:
        for i in range(input.dim()):
            dims.append(i)
    else:
        dims = dim
    if p == "fro" and (dim is None or len(dims) <= 2):
        result = torch.ops.aten.linalg_vector_norm(input, 2, dim, keepdim, dtype=dtype)
    else:
        result = torch.ops.aten.linalg_matrix_norm(input, p, dims, keepdim, dtype=dtype)
    return result if out is None else out.resize_(result.size()).copy_(result)

def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Tensor, Tensor]:
    return torch.ops.aten.linalg_lu_factor(A, pivot=pivot)

def lu_with_infos(A: Tensor, pivot: bool = True, get_infos: bool = True, out: Optional[Tuple[Tensor, Tensor, Tensor]] = None) -> Tuple[Tensor, Tensor, Tensor]:
    return torch.ops.aten.linalg_lu_factor_ex(A, pivot=pivot, check_errors=False)
)script";

constexpr std::string_view nn_init = R"script(
def zeros_(tensor: Tensor) -> Tensor:
    return torch._no_grad_zero_(tensor)

def ones_(tensor: Tensor) -> Tensor:
    return torch._no_grad_fill_(tensor, 1.0)

def constant_(tensor: Tensor, val: float) -> Tensor:
    return torch._no_grad_fill_(tensor, val)

def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    return torch._no_grad_normal_(tensor, mean, std)

def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    return torch._no_grad_uniform_(tensor, a, b)
)script";

// Objects that `with` opens. What an autocast scope does is the host's business (unit.cpp), which knows these
// classes by name, as PyTorch's executor does.
constexpr std::string_view amp_autocast = R"script(
class autocast:
    def __init__(self, device_type: str, dtype: Optional[int] = None, enabled: bool = True, cache_enabled: Optional[bool] = None):
        self.fast_dtype = torch.get_autocast_dtype(device_type) if dtype is None else dtype
        self._enabled = enabled
        self.device = device_type

    def __enter__(self):
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any):
        return None
)script";

constexpr std::string_view device_autocast = R"script(
class autocast:
    def __init__(self, enabled: bool = True, dtype: int = $DTYPE, cache_enabled: bool = True):
        self._enabled = enabled
        self.device = "$DEVICE"
        self.fast_dtype = dtype

    def __enter__(self):
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any):
        return None
)script";

constexpr std::string_view profiler = R"script(
class record_function:
    def __init__(self, name: str, args: Optional[str] = None):
        self.name = name
        self.args = args
        self.record = torch.jit.annotate(Optional[Tensor], None)

    def __enter__(self):
        self.record = torch.ops.profiler._record_function_enter(self.name, self.args)
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any):
        record = self.record
        if record is not None:
            torch.ops.profiler._record_function_exit(record)
)script";

Shared<const Source> source_of(std::string name, std::string_view text) {
  auto s = new_shared<Source>();
  s->name = std::move(name);
  s->text = text;
  return s;
}

}  // namespace

Shared<const Source> nn_init_source() {
  static const Shared<const Source> source = source_of("torch/nn/init.py", nn_init);
  return source;
}

Shared<const Source> amp_autocast_source() {
  static const Shared<const Source> source = source_of("torch/amp/autocast_mode.py", amp_autocast);
  return source;
}

Shared<const Source> device_autocast_source(std::string_view device, DType dtype) {
  std::string text(device_autocast);
  auto fill = [&](std::string_view mark, std::string_view with) {
    text.replace(text.find(mark), mark.size(), with);
  };
  fill("$DTYPE", std::to_string(static_cast<int>(dtype)));
  fill("$DEVICE", device);
  return source_of(fmt::format("torch/{}/amp/autocast_mode.py", device), text);
}

Shared<const Source> profiler_source() {
  static const Shared<const Source> source = source_of("torch/autograd/profiler.py", profiler);
  return source;
}

Shared<const Source> torch_functional_source() {
  static const Shared<const Source> source = source_of("torch/functional.py", torch_functional);
  return source;
}

}  // namespace tern::script
