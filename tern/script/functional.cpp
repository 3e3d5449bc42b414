// torch.nn.functional and torch.functional where they are more than one operator: written in the language
// itself and compiled when a script first names them.
#include "tern/script/functional.h"

namespace tern::script {
namespace {

constexpr std::string_view nn_functional = R"script(
def _reduction(reduction: str) -> int:
    if reduction == "none":
        return 0
    if reduction == "mean":
        return 1
    if reduction == "sum":
        return 2
    raise ValueError("{} is not a valid value for reduction".format(reduction))

def relu(input: Tensor, inplace: bool = False) -> Tensor:
    return torch.relu_(input) if inplace else torch.relu(input)

def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    return torch.clamp_(input, 0.0, 6.0) if inplace else torch.clamp(input, 0.0, 6.0)

def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return torch.clamp_(input, min_val, max_val) if inplace else torch.clamp(input, min_val, max_val)

def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    y = torch.elu(input, alpha)
    return input.copy_(y) if inplace else y

def selu(input: Tensor, inplace: bool = False) -> Tensor:
    y = torch.selu(input)
    return input.copy_(y) if inplace else y

def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    y = torch.celu(input, alpha)
    return input.copy_(y) if inplace else y

def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    y = torch.ops.aten.leaky_relu(input, negative_slope)
    return input.copy_(y) if inplace else y

def silu(input: Tensor, inplace: bool = False) -> Tensor:
    y = torch.ops.aten.silu(input)
    return input.copy_(y) if inplace else y

def mish(input: Tensor, inplace: bool = False) -> Tensor:
    y = torch.ops.aten.mish(input)
    return input.copy_(y) if inplace else y

def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    y = torch.ops.aten.hardsigmoid(input)
    return input.copy_(y) if inplace else y

def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    y = torch.ops.aten.hardswish(input)
    return input.copy_(y) if inplace else y

def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    y = torch.where(input > threshold, input, torch.full_like(input, value))
    return input.copy_(y) if inplace else y

def rrelu(input: Tensor, lower: float = 0.125, upper: float = 0.3333333333333333, training: bool = False, inplace: bool = False) -> Tensor:
    if training:
        slope = torch.rand_like(input) * (upper - lower) + lower
        y = torch.where(input >= 0, input, input * slope)
    else:
        y = torch.where(input >= 0, input, input * ((lower + upper) / 2))
    return input.copy_(y) if inplace else y

def softsign(input: Tensor) -> Tensor:
    return input / (input.abs() + 1)

def tanhshrink(input: Tensor) -> Tensor:
    return input - input.tanh()

def softmin(input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None) -> Tensor:
    if dim is None:
        dim = _softmax_dim("softmin", input.dim())
    return softmax(-input, dim, _stacklevel, dtype)

def _softmax_dim(name: str, ndim: int) -> int:
    warnings.warn("Implicit dimension choice for {} has been deprecated. Change the call to include dim=X as an argument.".format(name))
    if ndim == 0 or ndim == 1 or ndim == 3:
        return 0
    return 1

def softmax(input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None) -> Tensor:
    if dim is None:
        dim = _softmax_dim("softmax", input.dim())
    if dtype is None:
        return torch.softmax(input, dim)
    return torch.softmax(input, dim, dtype=dtype)

def log_softmax(input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None) -> Tensor:
    if dim is None:
        dim = _softmax_dim("log_softmax", input.dim())
    if dtype is None:
        return torch.log_softmax(input, dim)
    return torch.log_softmax(input, dim, dtype=dtype)

def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    noise = -torch.log(-torch.log(torch.rand_like(logits).clamp(min=1e-20)))
    soft = torch.softmax((logits + noise) / tau, dim)
    if hard:
        index = soft.argmax(dim, keepdim=True)
        one = torch.zeros_like(logits).scatter(dim, index, 1.0)
        return one - soft.detach() + soft
    return soft

def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if p < 0.0 or p > 1.0:
        raise ValueError("dropout probability has to be between 0 and 1, but got {}".format(p))
    y = torch.dropout(input, p, training)
    return input.copy_(y) if inplace else y

def _channel_dropout(input: Tensor, p: float, training: bool, keep: int) -> Tensor:
    if p < 0.0 or p > 1.0:
        raise ValueError("dropout probability has to be between 0 and 1, but got {}".format(p))
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return torch.zeros_like(input)
    shape: List[int] = []
    for i in range(input.dim()):
        shape.append(input.size(i) if i < keep else 1)
    mask = (torch.rand(shape) >= p).to(input.dtype)
    return input * mask / (1.0 - p)

def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return _channel_dropout(input, p, training, input.dim() - 1)

def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return _channel_dropout(input, p, training, input.dim() - 2)

def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return _channel_dropout(input, p, training, input.dim() - 3)

def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    if not training or p == 0.0:
        return input
    alpha = -1.7580993408473766
    mask = (torch.rand_like(input) >= p).to(input.dtype)
    a = 1.0 / math.sqrt((1.0 - p) * (1.0 + p * alpha * alpha))
    return (input * mask + alpha * (1.0 - mask)) * a - a * p * alpha

def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    if p < 0.0 or p > 1.0:
        raise ValueError("dropout probability has to be between 0 and 1, but got {}".format(p))
    y = torch.ops.aten.feature_alpha_dropout(input, p, training)
    return input.copy_(y) if inplace else y

def linear(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    return torch.ops.aten.linear(input, weight, bias)

def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Optional[Tensor] = None) -> Tensor:
    denom = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / denom

def layer_norm(input: Tensor, normalized_shape: List[int], weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-5) -> Tensor:
    return torch.layer_norm(input, normalized_shape, weight, bias, eps)

def _verify_batch_size(size: List[int]) -> None:
    n = size[0]
    for i in range(len(size) - 2):
        n *= size[i + 2]
    if n == 1:
        raise ValueError("Expected more than 1 value per channel when training, got input size {}".format(size))

def batch_norm(input: Tensor, running_mean: Optional[Tensor], running_var: Optional[Tensor], weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    if training:
        _verify_batch_size(input.size())
    return torch.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)

def instance_norm(input: Tensor, running_mean: Optional[Tensor] = None, running_var: Optional[Tensor] = None, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    return torch.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)

def group_norm(input: Tensor, num_groups: int, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-5) -> Tensor:
    if input.dim() < 2:
        raise RuntimeError("Expected at least 2 dimensions for input tensor but received {}".format(input.dim()))
    sizes = [input.size(0) * input.size(1) // num_groups, num_groups]
    for i in range(2, input.dim()):
        sizes.append(input.size(i))
    _verify_batch_size(sizes)
    return torch.group_norm(input, num_groups, weight, bias, eps)

def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    if input.numel() == 0:
        return input
    squares = (input * input).flatten(2).unsqueeze(1)
    n = input.size(0)
    c = input.size(1)
    low = size // 2
    high = (size - 1) // 2
    padded = torch.constant_pad_nd(squares, [0, 0, low, high], 0.0)
    total = torch.zeros_like(squares)
    for i in range(size):
        total = total + padded.narrow(2, i, c)
    div = (total / size).view(input.size()) * alpha + k
    return input / div.pow(beta)

def embedding(input: Tensor, weight: Tensor, padding_idx: Optional[int] = None, max_norm: Optional[float] = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    pad = -1
    if padding_idx is not None:
        pad = padding_idx if padding_idx >= 0 else padding_idx + weight.size(0)
        assert pad < weight.size(0), "Padding_idx must be within num_embeddings"
    if max_norm is not None:
        with torch.no_grad():
            torch.embedding_renorm_(weight, input, max_norm, norm_type)
    return torch.embedding(weight, input, pad, scale_grad_by_freq, sparse)

def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    return torch.one_hot(tensor, num_classes)

def pad(input: Tensor, pad: List[int], mode: str = "constant", value: Optional[float] = None) -> Tensor:
    if mode == "constant":
        fill = 0.0 if value is None else value
        return torch.constant_pad_nd(input, pad, fill)
    if value is not None and value != 0.0:
        raise ValueError("Padding mode \"{}\" doesn't take in value argument".format(mode))
    n = len(pad) // 2
    if mode == "reflect":
        if n == 1:
            return torch.ops.aten.reflection_pad1d(input, pad)
        if n == 2:
            return torch.ops.aten.reflection_pad2d(input, pad)
        return torch.ops.aten.reflection_pad3d(input, pad)
    if mode == "replicate":
        if n == 1:
            return torch.ops.aten.replication_pad1d(input, pad)
        if n == 2:
            return torch.ops.aten.replication_pad2d(input, pad)
        return torch.ops.aten.replication_pad3d(input, pad)
    if mode == "circular":
        y = input
        for i in range(n):
            dim = input.dim() - 1 - i
            low = pad[2 * i]
            high = pad[2 * i + 1]
            size = input.size(dim)
            parts: List[Tensor] = []
            if low > 0:
                parts.append(y.narrow(dim, size - low, low))
            parts.append(y)
            if high > 0:
                parts.append(y.narrow(dim, 0, high))
            y = torch.cat(parts, dim)
        return y
    raise NotImplementedError("Unrecognised padding mode {}".format(mode))

def _not_for(mode: str, needed: int, got: int) -> None:
    raise NotImplementedError("Got {}D input, but {} mode needs {}D input".format(got, mode, needed))

def interpolate(input: Tensor, size: Optional[BroadcastingList1[int]] = None, scale_factor: Optional[BroadcastingList1[float]] = None, mode: str = "nearest", align_corners: Optional[bool] = None, recompute_scale_factor: Optional[bool] = None, antialias: bool = False) -> Tensor:
    n = input.dim() - 2
    aligned = False
    if align_corners is not None:
        if mode == "nearest" or mode == "area" or mode == "nearest-exact":
            raise ValueError("align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear")
        aligned = align_corners
    out: Optional[List[int]] = None
    scales: Optional[List[float]] = None
    if size is not None:
        if scale_factor is not None:
            raise ValueError("only one of size or scale_factor should be defined")
        sizes = size
        if len(size) == 1:
            sizes = [size[0] for _ in range(n)]
        if len(sizes) != n:
            raise ValueError("Input and output must have the same number of spatial dimensions, but got input with spatial dimensions of {} and output size of {}".format(input.shape[2:], size))
        out = sizes
    elif scale_factor is not None:
        factors = scale_factor
        if len(scale_factor) == 1:
            factors = [scale_factor[0] for _ in range(n)]
        if len(factors) != n:
            raise ValueError("Input and scale_factor must have the same number of spatial dimensions, but got input with spatial dimensions of {} and scale_factor of {}".format(input.shape[2:], scale_factor))
        again = False
        if recompute_scale_factor is not None:
            again = recompute_scale_factor
        if again or mode == "area":
            out = [int(math.floor(float(input.size(i + 2)) * factors[i])) for i in range(n)]
        else:
            scales = factors
    else:
        raise ValueError("either size or scale_factor should be defined")
    if antialias:
        if n != 2 or (mode != "bilinear" and mode != "bicubic"):
            raise ValueError("Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input")
        if mode == "bilinear":
            return torch.ops.aten._upsample_bilinear2d_aa(input, out, aligned, scales)
        return torch.ops.aten._upsample_bicubic2d_aa(input, out, aligned, scales)
    if mode == "nearest":
        if n == 1:
            return torch.ops.aten.upsample_nearest1d(input, out, scales)
        if n == 2:
            return torch.ops.aten.upsample_nearest2d(input, out, scales)
        if n == 3:
            return torch.ops.aten.upsample_nearest3d(input, out, scales)
    if mode == "nearest-exact":
        if n == 1:
            return torch.ops.aten._upsample_nearest_exact1d(input, out, scales)
        if n == 2:
            return torch.ops.aten._upsample_nearest_exact2d(input, out, scales)
        if n == 3:
            return torch.ops.aten._upsample_nearest_exact3d(input, out, scales)
    if mode == "area" and out is not None:
        if n == 1:
            return torch.ops.aten.adaptive_avg_pool1d(input, out)
        if n == 2:
            return torch.ops.aten.adaptive_avg_pool2d(input, out)
        if n == 3:
            return torch.ops.aten.adaptive_avg_pool3d(input, out)
    if n >= 1 and n <= 3:
        if mode == "linear":
            if n != 1:
                _not_for(mode, 3, n + 2)
            return torch.ops.aten.upsample_linear1d(input, out, aligned, scales)
        if mode == "bilinear":
            if n != 2:
                _not_for(mode, 4, n + 2)
            return torch.ops.aten.upsample_bilinear2d(input, out, aligned, scales)
        if mode == "bicubic":
            if n != 2:
                _not_for(mode, 4, n + 2)
            return torch.ops.aten.upsample_bicubic2d(input, out, aligned, scales)
        if mode == "trilinear":
            if n != 3:
                _not_for(mode, 5, n + 2)
            return torch.ops.aten.upsample_trilinear3d(input, out, aligned, scales)
    raise NotImplementedError("Input Error: Only 3D, 4D and 5D input Tensors supported (got {}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact (got {})".format(input.dim(), mode))

def upsample(input: Tensor, size: Optional[BroadcastingList1[int]] = None, scale_factor: Optional[BroadcastingList1[float]] = None, mode: str = "nearest", align_corners: Optional[bool] = None) -> Tensor:
    return interpolate(input, size, scale_factor, mode, align_corners)

def upsample_nearest(input: Tensor, size: Optional[BroadcastingList1[int]] = None, scale_factor: Optional[BroadcastingList1[float]] = None) -> Tensor:
    return interpolate(input, size, scale_factor, "nearest")

def upsample_bilinear(input: Tensor, size: Optional[BroadcastingList1[int]] = None, scale_factor: Optional[BroadcastingList1[float]] = None) -> Tensor:
    return interpolate(input, size, scale_factor, "bilinear", True)

def affine_grid(theta: Tensor, size: List[int], align_corners: Optional[bool] = None) -> Tensor:
    aligned = False
    if align_corners is not None:
        aligned = align_corners
    else:
        warnings.warn("Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for details.")
    return torch.affine_grid_generator(theta, size, aligned)

def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: Optional[bool] = None) -> Tensor:
    if mode != "bilinear" and mode != "nearest" and mode != "bicubic":
        raise ValueError("nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{}'".format(mode))
    if padding_mode != "zeros" and padding_mode != "border" and padding_mode != "reflection":
        raise ValueError("nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: '{}'".format(padding_mode))
    aligned = False
    if align_corners is not None:
        aligned = align_corners
    else:
        warnings.warn("Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for details.")
    how = 0 if mode == "bilinear" else 1 if mode == "nearest" else 2
    outside = 0 if padding_mode == "zeros" else 1 if padding_mode == "border" else 2
    return torch.grid_sampler(input, grid, how, outside, aligned)

def embedding_bag(input: Tensor, weight: Tensor, offsets: Optional[Tensor] = None, max_norm: Optional[float] = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Optional[Tensor] = None, include_last_offset: bool = False, padding_idx: Optional[int] = None) -> Tensor:
    if max_norm is not None:
        with torch.no_grad():
            torch.embedding_renorm_(weight, input, max_norm, norm_type)
    how = 0 if mode == "sum" else 1 if mode == "mean" else 2
    if mode != "sum" and mode != "mean" and mode != "max":
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError("embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got mode='{}'). Please open a feature request on GitHub.".format(mode))
    flat = input
    weights = per_sample_weights
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences.")
        starts = torch.arange(0, input.numel(), input.size(1), dtype=input.dtype, device=input.device)
        flat = input.reshape(-1)
        if weights is not None:
            weights = weights.reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        starts = offsets
    else:
        raise ValueError("input has to be 1D or 2D Tensor, but got Tensor of dimension {}".format(input.dim()))
    return torch.embedding_bag(weight, flat, starts, scale_grad_by_freq, how, sparse, weights, include_last_offset, padding_idx)[0]

def max_pool1d(input: Tensor, kernel_size: BroadcastingList1[int], stride: Optional[BroadcastingList1[int]] = None, padding: BroadcastingList1[int] = [0], dilation: BroadcastingList1[int] = [1], ceil_mode: bool = False, return_indices: bool = False) -> Tensor:
    steps = torch.jit.annotate(List[int], [])
    if stride is not None:
        steps = stride
    return torch.ops.aten.max_pool1d(input, kernel_size, steps, padding, dilation, ceil_mode)

def max_pool1d_with_indices(input: Tensor, kernel_size: BroadcastingList1[int], stride: Optional[BroadcastingList1[int]] = None, padding: BroadcastingList1[int] = [0], dilation: BroadcastingList1[int] = [1], ceil_mode: bool = False) -> Tuple[Tensor, Tensor]:
    steps = torch.jit.annotate(List[int], [])
    if stride is not None:
        steps = stride
    return torch.ops.aten.max_pool1d_with_indices(input, kernel_size, steps, padding, dilation, ceil_mode)

def max_pool2d(input: Tensor, kernel_size: BroadcastingList2[int], stride: Optional[BroadcastingList2[int]] = None, padding: BroadcastingList2[int] = [0, 0], dilation: BroadcastingList2[int] = [1, 1], ceil_mode: bool = False, return_indices: bool = False) -> Tensor:
    steps = torch.jit.annotate(List[int], [])
    if stride is not None:
        steps = stride
    return torch.ops.aten.max_pool2d(input, kernel_size, steps, padding, dilation, ceil_mode)

def max_pool2d_with_indices(input: Tensor, kernel_size: BroadcastingList2[int], stride: Optional[BroadcastingList2[int]] = None, padding: BroadcastingList2[int] = [0, 0], dilation: BroadcastingList2[int] = [1, 1], ceil_mode: bool = False) -> Tuple[Tensor, Tensor]:
    steps = torch.jit.annotate(List[int], [])
    if stride is not None:
        steps = stride
    return torch.ops.aten.max_pool2d_with_indices(input, kernel_size, steps, padding, dilation, ceil_mode)

def max_pool3d(input: Tensor, kernel_size: BroadcastingList3[int], stride: Optional[BroadcastingList3[int]] = None, padding: BroadcastingList3[int] = [0, 0, 0], dilation: BroadcastingList3[int] = [1, 1, 1], ceil_mode: bool = False, return_indices: bool = False) -> Tensor:
    steps = torch.jit.annotate(List[int], [])
    if stride is not None:
        steps = stride
    return torch.ops.aten.max_pool3d(input, kernel_size, steps, padding, dilation, ceil_mode)

def max_pool3d_with_indices(input: Tensor, kernel_size: BroadcastingList3[int], stride: Optional[BroadcastingList3[int]] = None, padding: BroadcastingList3[int] = [0, 0, 0], dilation: BroadcastingList3[int] = [1, 1, 1], ceil_mode: bool = False) -> Tuple[Tensor, Tensor]:
    steps = torch.jit.annotate(List[int], [])
    if stride is not None:
        steps = stride
    return torch.ops.aten.max_pool3d_with_indices(input, kernel_size, steps, padding, dilation, ceil_mode)

def adaptive_max_pool1d(input: Tensor, output_size: BroadcastingList1[int], return_indices: bool = False) -> Tensor:
    return torch.ops.aten.adaptive_max_pool1d(input, output_size)[0]

def adaptive_max_pool1d_with_indices(input: Tensor, output_size: BroadcastingList1[int]) -> Tuple[Tensor, Tensor]:
    return torch.ops.aten.adaptive_max_pool1d(input, output_size)

def adaptive_max_pool2d(input: Tensor, output_size: BroadcastingList2[int], return_indices: bool = False) -> Tensor:
    return torch.ops.aten.adaptive_max_pool2d(input, output_size)[0]

def adaptive_max_pool2d_with_indices(input: Tensor, output_size: BroadcastingList2[int]) -> Tuple[Tensor, Tensor]:
    return torch.ops.aten.adaptive_max_pool2d(input, output_size)

def adaptive_max_pool3d(input: Tensor, output_size: BroadcastingList3[int], return_indices: bool = False) -> Tensor:
    return torch.ops.aten.adaptive_max_pool3d(input, output_size)[0]

def adaptive_max_pool3d_with_indices(input: Tensor, output_size: BroadcastingList3[int]) -> Tuple[Tensor, Tensor]:
    return torch.ops.aten.adaptive_max_pool3d(input, output_size)

def logsigmoid(input: Tensor) -> Tensor:
    return torch.ops.aten.log_sigmoid(input)

def lp_pool1d(input: Tensor, norm_type: float, kernel_size: int, stride: Optional[int] = None, ceil_mode: bool = False) -> Tensor:
    step = kernel_size if stride is None else stride
    out = torch.ops.aten.avg_pool1d(input.pow(norm_type), kernel_size, step, 0, ceil_mode)
    return (torch.sign(out) * torch.relu(torch.abs(out))).mul(kernel_size).pow(1.0 / norm_type)

def lp_pool2d(input: Tensor, norm_type: float, kernel_size: BroadcastingList2[int], stride: Optional[List[int]] = None, ceil_mode: bool = False) -> Tensor:
    step = kernel_size if stride is None else stride
    area = kernel_size[0] * kernel_size[1]
    out = torch.ops.aten.avg_pool2d(input.pow(norm_type), kernel_size, step, [0, 0], ceil_mode)
    return (torch.sign(out) * torch.relu(torch.abs(out))).mul(area).pow(1.0 / norm_type)

def lp_pool3d(input: Tensor, norm_type: float, kernel_size: BroadcastingList3[int], stride: Optional[BroadcastingList3[int]] = None, ceil_mode: bool = False) -> Tensor:
    step = kernel_size if stride is None else stride
    volume = kernel_size[0] * kernel_size[1] * kernel_size[2]
    out = torch.ops.aten.avg_pool3d(input.pow(norm_type), kernel_size, step, [0, 0, 0], ceil_mode)
    return (torch.sign(out) * torch.relu(torch.abs(out))).mul(volume).pow(1.0 / norm_type)

def _unpool_size(input: Tensor, kernel_size: List[int], stride: List[int], padding: List[int], output_size: Optional[List[int]]) -> List[int]:
    n = len(kernel_size)
    first = input.dim() - n
    natural = [(input.size(first + i) - 1) * stride[i] + kernel_size[i] - 2 * padding[i] for i in range(n)]
    if output_size is None:
        return natural
    wanted = output_size
    if len(wanted) == n + 2:
        wanted = wanted[2:]
    if len(wanted) != n:
        raise ValueError("output_size should be a sequence containing {} or {} elements, but it has a length of '{}'".format(n, n + 2, len(output_size)))
    for i in range(n):
        if wanted[i] <= natural[i] - stride[i] or wanted[i] >= natural[i] + stride[i]:
            raise ValueError("invalid output_size \"{}\" (dim {} must be between {} and {})".format(wanted, i, natural[i] - stride[i], natural[i] + stride[i]))
    return wanted

def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: BroadcastingList1[int], stride: Optional[BroadcastingList1[int]] = None, padding: BroadcastingList1[int] = [0], output_size: Optional[List[int]] = None) -> Tensor:
    step = kernel_size if stride is None else stride
    size = _unpool_size(input, kernel_size, step, padding, output_size)
    return torch.ops.aten.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [size[0], 1]).squeeze(-1)

def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: BroadcastingList2[int], stride: Optional[BroadcastingList2[int]] = None, padding: BroadcastingList2[int] = [0, 0], output_size: Optional[List[int]] = None) -> Tensor:
    step = kernel_size if stride is None else stride
    return torch.ops.aten.max_unpool2d(input, indices, _unpool_size(input, kernel_size, step, padding, output_size))

def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: BroadcastingList3[int], stride: Optional[BroadcastingList3[int]] = None, padding: BroadcastingList3[int] = [0, 0, 0], output_size: Optional[List[int]] = None) -> Tensor:
    step = kernel_size if stride is None else stride
    return torch.ops.aten.max_unpool3d(input, indices, _unpool_size(input, kernel_size, step, padding, output_size), step, padding)

def _fractional_size(input: Tensor, output_size: Optional[List[int]], output_ratio: Optional[List[float]], dims: int) -> List[int]:
    if output_size is not None:
        return output_size
    if output_ratio is None:
        raise ValueError("fractional_max_pool{}d requires specifying either an output_size or an output_ratio".format(dims))
    return [int(float(input.size(i - dims)) * output_ratio[i]) for i in range(dims)]

def _fractional_samples(input: Tensor, samples: Optional[Tensor], dims: int) -> Tensor:
    if samples is not None:
        return samples
    batch = 1 if input.dim() == dims + 1 else input.size(0)
    return torch.rand([batch, input.size(-dims - 1), dims], dtype=input.dtype, device=input.device)

def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: BroadcastingList2[int], output_size: Optional[BroadcastingList2[int]] = None, output_ratio: Optional[BroadcastingList2[float]] = None, return_indices: bool = False, _random_samples: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    return torch.ops.aten.fractional_max_pool2d(input, kernel_size, _fractional_size(input, output_size, output_ratio, 2), _fractional_samples(input, _random_samples, 2))

def fractional_max_pool2d(input: Tensor, kernel_size: BroadcastingList2[int], output_size: Optional[BroadcastingList2[int]] = None, output_ratio: Optional[BroadcastingList2[float]] = None, return_indices: bool = False, _random_samples: Optional[Tensor] = None) -> Tensor:
    return fractional_max_pool2d_with_indices(input, kernel_size, output_size, output_ratio, return_indices, _random_samples)[0]

def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: BroadcastingList3[int], output_size: Optional[BroadcastingList3[int]] = None, output_ratio: Optional[BroadcastingList3[float]] = None, return_indices: bool = False, _random_samples: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    return torch.ops.aten.fractional_max_pool3d(input, kernel_size, _fractional_size(input, output_size, output_ratio, 3), _fractional_samples(input, _random_samples, 3))

def fractional_max_pool3d(input: Tensor, kernel_size: BroadcastingList3[int], output_size: Optional[BroadcastingList3[int]] = None, output_ratio: Optional[BroadcastingList3[float]] = None, return_indices: bool = False, _random_samples: Optional[Tensor] = None) -> Tensor:
    return fractional_max_pool3d_with_indices(input, kernel_size, output_size, output_ratio, return_indices, _random_samples)[0]

def unfold(input: Tensor, kernel_size: BroadcastingList2[int], dilation: BroadcastingList2[int] = [1, 1], padding: BroadcastingList2[int] = [0, 0], stride: BroadcastingList2[int] = [1, 1]) -> Tensor:
    return torch.ops.aten.im2col(input, kernel_size, dilation, padding, stride)

def fold(input: Tensor, output_size: BroadcastingList2[int], kernel_size: BroadcastingList2[int], dilation: BroadcastingList2[int] = [1, 1], padding: BroadcastingList2[int] = [0, 0], stride: BroadcastingList2[int] = [1, 1]) -> Tensor:
    return torch.ops.aten.col2im(input, output_size, kernel_size, dilation, padding, stride)

def _expect_one_size(input: Tensor, target: Tensor) -> None:
    if target.size() != input.size():
        warnings.warn("Using a target size ({}) that is different to the input size ({}). This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.".format(target.size(), input.size()))

def _weighted(loss: Tensor, input: Tensor, weight: Tensor, reduction: str, by_weight: bool) -> Tensor:
    if weight.size() != input.size():
        raise ValueError("Weights and input must have the same size.")
    weighted = loss * weight
    if reduction == "none":
        return weighted
    if reduction == "sum":
        return torch.sum(weighted)
    if reduction == "mean":
        return torch.sum(weighted) / torch.sum(weight) if by_weight else torch.mean(weighted)
    raise ValueError("Invalid reduction mode: {}. Expected one of 'none', 'mean', 'sum'.".format(reduction))

def mse_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean", weight: Optional[Tensor] = None) -> Tensor:
    _expect_one_size(input, target)
    if weight is not None:
        return _weighted(torch.ops.aten.mse_loss(input, target, 0), input, weight, reduction, True)
    return torch.ops.aten.mse_loss(input, target, _reduction(reduction))

def l1_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean", weight: Optional[Tensor] = None) -> Tensor:
    _expect_one_size(input, target)
    if weight is not None:
        return _weighted(torch.ops.aten.l1_loss(input, target, 0), input, weight, reduction, True)
    return torch.ops.aten.l1_loss(input, target, _reduction(reduction))

def smooth_l1_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    _expect_one_size(input, target)
    if beta == 0.0:
        return torch.ops.aten.l1_loss(input, target, _reduction(reduction))
    return torch.ops.aten.smooth_l1_loss(input, target, _reduction(reduction), beta)

def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Optional[Tensor] = None) -> Tensor:
    _expect_one_size(input, target)
    if weight is not None:
        return _weighted(torch.ops.aten.huber_loss(input, target, 0, delta), input, weight, reduction, False)
    return torch.ops.aten.huber_loss(input, target, _reduction(reduction), delta)

def nll_loss(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, size_average: Optional[bool] = None, ignore_index: int = -100, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    return torch.ops.aten.nll_loss_nd(input, target, weight, _reduction(reduction), ignore_index)

def cross_entropy(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, size_average: Optional[bool] = None, ignore_index: int = -100, reduce: Optional[bool] = None, reduction: str = "mean", label_smoothing: float = 0.0) -> Tensor:
    return torch.ops.aten.cross_entropy_loss(input, target, weight, _reduction(reduction), ignore_index, label_smoothing)

def kl_div(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean", log_target: bool = False) -> Tensor:
    if reduction == "batchmean":
        total = torch.ops.aten.kl_div(input, target, 2, log_target=log_target)
        return total / input.size(0) if input.dim() != 0 else total
    return torch.ops.aten.kl_div(input, target, _reduction(reduction), log_target=log_target)

def binary_cross_entropy(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    return torch.ops.aten.binary_cross_entropy(input, target, weight, _reduction(reduction))

def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean", pos_weight: Optional[Tensor] = None) -> Tensor:
    return torch.ops.aten.binary_cross_entropy_with_logits(input, target, weight, pos_weight, _reduction(reduction))

def _reduced(loss: Tensor, reduction: str) -> Tensor:
    kind = _reduction(reduction)
    if kind == 0:
        return loss
    if kind == 1:
        return loss.mean()
    return loss.sum()

def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    zeros = torch.zeros_like(input)
    positive = torch.where(target != -1, input, zeros)
    negative = torch.where(target != 1, (margin - input).clamp_min(0.0), zeros)
    return _reduced(positive + negative, reduction)

def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    return _reduced((-target * (input1 - input2) + margin).clamp_min(0.0), reduction)

def soft_margin_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    return _reduced(torch.log1p(torch.exp(-target * input)), reduction)

def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> Tensor:
    return torch.ops.aten.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, _reduction(reduction), zero_infinity)

def multi_margin_loss(input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Optional[Tensor] = None, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    if p != 1 and p != 2:
        raise ValueError("only p == 1 and p == 2 supported")
    return torch.ops.aten.multi_margin_loss(input, target, p, margin, weight, _reduction(reduction))

def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    return torch.ops.aten.multilabel_margin_loss(input, target, _reduction(reduction))

def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return _reduced(loss.mean(-1), reduction)

def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    cos = torch.cosine_similarity(input1, input2, -1)
    zeros = torch.zeros_like(cos)
    loss = torch.where(target == 1, 1.0 - cos, zeros) + torch.where(target == -1, (cos - margin).clamp_min(0.0), zeros)
    return _reduced(loss, reduction)

def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = torch.minimum(far, pairwise_distance(positive, negative, p, eps))
    return _reduced((near - far + margin).clamp_min(0.0), reduction)

def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: Optional[bool] = None, eps: float = 1e-8, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    if log_input:
        loss = torch.exp(input) - target * input
    else:
        loss = input - target * torch.log(input + eps)
    if full:
        stirling = target * torch.log(target) - target + 0.5 * torch.log(2 * math.pi * target)
        loss = loss + torch.where(target > 1, stirling, torch.zeros_like(target))
    return _reduced(loss, reduction)

def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Tensor:
    v = var.clamp_min(eps)
    loss = 0.5 * (torch.log(v) + (input - target) * (input - target) / v)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduced(loss, reduction)

def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    return torch.cosine_similarity(x1, x2, dim, eps)

def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    return torch.norm(x1 - x2 + eps, p, -1, keepdim)

def _number_mask(mask: Tensor, like: Tensor) -> Tensor:
    if mask.dtype == torch.bool:
        return torch.zeros(mask.shape, dtype=like.dtype, device=like.device).masked_fill(mask, float("-inf"))
    return mask.to(like.dtype)

def multi_head_attention_forward(query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int, in_proj_weight: Optional[Tensor], in_proj_bias: Optional[Tensor], bias_k: Optional[Tensor], bias_v: Optional[Tensor], add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor, out_proj_bias: Optional[Tensor], training: bool = True, key_padding_mask: Optional[Tensor] = None, need_weights: bool = True, attn_mask: Optional[Tensor] = None, use_separate_proj_weight: bool = False, q_proj_weight: Optional[Tensor] = None, k_proj_weight: Optional[Tensor] = None, v_proj_weight: Optional[Tensor] = None, static_k: Optional[Tensor] = None, static_v: Optional[Tensor] = None, average_attn_weights: bool = True, is_causal: bool = False) -> Tuple[Tensor, Optional[Tensor]]:
    batched = query.dim() == 3
    if query.dim() != 2 and query.dim() != 3:
        raise AssertionError("query should be unbatched 2D or batched 3D tensor but received {}-D query tensor".format(query.dim()))
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    padding = key_padding_mask
    q, k, v = query, key, value
    if not batched:
        q, k, v = q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1)
        if padding is not None:
            padding = padding.unsqueeze(0)
    length, batch, width = q.size(0), q.size(1), q.size(2)
    if width != embed_dim_to_check:
        raise AssertionError("was expecting embedding dimension of {}, but got {}".format(embed_dim_to_check, width))
    head = width // num_heads
    if head * num_heads != width:
        raise AssertionError("embed_dim {} not divisible by num_heads {}".format(width, num_heads))
    if use_separate_proj_weight:
        if q_proj_weight is None or k_proj_weight is None or v_proj_weight is None:
            raise AssertionError("use_separate_proj_weight is True but a weight is None")
        weights = [q_proj_weight, k_proj_weight, v_proj_weight]
    else:
        if in_proj_weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        weights = in_proj_weight.chunk(3)
    if in_proj_bias is not None:
        biases = in_proj_bias.chunk(3)
        q, k, v = torch.linear(q, weights[0], biases[0]), torch.linear(k, weights[1], biases[1]), torch.linear(v, weights[2], biases[2])
    else:
        q, k, v = torch.linear(q, weights[0]), torch.linear(k, weights[1]), torch.linear(v, weights[2])
    mask = attn_mask
    if mask is not None:
        mask = _number_mask(mask, q)
        if mask.dim() == 2:
            mask = mask.unsqueeze(0)
    if padding is not None:
        padding = _number_mask(padding, q)
    if bias_k is not None and bias_v is not None:
        k = torch.cat([k, bias_k.repeat(1, batch, 1)])
        v = torch.cat([v, bias_v.repeat(1, batch, 1)])
        if mask is not None:
            mask = torch.constant_pad_nd(mask, [0, 1])
        if padding is not None:
            padding = torch.constant_pad_nd(padding, [0, 1])
    rows = batch * num_heads
    q = q.reshape(length, rows, head).transpose(0, 1)
    if static_k is not None:
        k = static_k
    else:
        k = k.reshape(k.size(0), rows, head).transpose(0, 1)
    if static_v is not None:
        v = static_v
    else:
        v = v.reshape(v.size(0), rows, head).transpose(0, 1)
    if add_zero_attn:
        none = torch.zeros([rows, 1, head], dtype=k.dtype, device=k.device)
        k = torch.cat([k, none], 1)
        v = torch.cat([v, none], 1)
        if mask is not None:
            mask = torch.constant_pad_nd(mask, [0, 1])
        if padding is not None:
            padding = torch.constant_pad_nd(padding, [0, 1])
    source = k.size(1)
    scores = torch.bmm(q * math.sqrt(1.0 / float(head)), k.transpose(1, 2))
    if mask is not None:
        scores = scores + mask
    if padding is not None:
        scores = scores + padding.view(batch, 1, 1, source).expand(batch, num_heads, 1, source).reshape(rows, 1, source)
    attention = torch.softmax(scores, -1)
    if dropout_p > 0.0:
        attention = dropout(attention, dropout_p, training)
    result = torch.bmm(attention, v).transpose(0, 1).reshape(length, batch, width)
    result = torch.linear(result, out_proj_weight, out_proj_bias)
    if not batched:
        result = result.squeeze(1)
    if not need_weights:
        return result, None
    shown = attention.view(batch, num_heads, length, source)
    if average_attn_weights:
        shown = shown.mean(1)
    if not batched:
        shown = shown.squeeze(0)
    return result, shown

def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None, dropout_p: float = 0.0, is_causal: bool = False, scale: Optional[float] = None, enable_gqa: bool = False) -> Tensor:
    return torch.ops.aten.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
)script";

}  // namespace

Shared<const Source> functional_source() {
  static const Shared<const Source> source = [] {
    auto s = new_shared<Source>();
    s->name = "torch/nn/functional.py";
    s->text = nn_functional;
    return s;
  }();
  return source;
}

}  // namespace tern::script
