// The calls are text: argument=value, as the schema's types want it. Tensors are a letter and sizes: f of the
// type that is tried, q quantized to it, n nested tensors of it, s float32, i int64, w int32, y uint8, b
// bool; =3 behind the sizes fills it. Lists have commas; - is None.
#include "ops_arguments.h"

#include <charconv>
#include <string>

#include "tern/base/format.h"
#include "tern/ops.h"

namespace tern::command {
namespace {

struct Call {
  const char *names, *arguments;  // a name that ends with * begins with what is before it
};
constexpr Call calls[] = {
    // recurrent
    {"aten::lstm_cell", "input=f2x4 hx=f2x5,f2x5 w_ih=f20x4 w_hh=f20x5"},
    {"aten::lstm.input", "input=f3x2x4 hx=f1x2x5,f1x2x5 params=f20x4,f20x5,f20,f20 has_biases=true"},
    {"aten::lstm.data",
     "data=f4x4 batch_sizes=i2=2 hx=f1x2x5,f1x2x5 params=f20x4,f20x5,f20,f20 has_biases=true"},
    {"aten::gru.input", "input=f3x2x4 hx=f1x2x5 params=f15x4,f15x5,f15,f15 has_biases=true"},
    {"aten::rnn_tanh.input aten::rnn_relu.input",
     "input=f3x2x4 hx=f1x2x5 params=f5x4,f5x5,f5,f5 has_biases=true"},
    {"aten::gru.data", "data=f4x4 batch_sizes=i2=2 hx=f1x2x5 params=f15x4,f15x5,f15,f15 has_biases=true"},
    {"aten::rnn_tanh.data aten::rnn_relu.data",
     "data=f4x4 batch_sizes=i2=2 hx=f1x2x5 params=f5x4,f5x5,f5,f5 has_biases=true"},
    {"aten::gru_cell", "input=f2x4 hx=f2x5 w_ih=f15x4 w_hh=f15x5"},
    {"aten::_thnn_fused_gru_cell", "input_gates=f2x15 hidden_gates=f2x15 hx=f2x5"},
    {"aten::_thnn_fused_gru_cell_backward", "grad_hy=f2x5 workspace=f2x25 has_bias=true"},
    {"aten::_thnn_fused_lstm_cell", "input_gates=f2x20 hidden_gates=f2x20 cx=f2x5"},
    {"aten::_thnn_fused_lstm_cell_backward*",
     "grad_hy=f2x5 grad_cy=f2x5 cx=f2x5 cy=f2x5 workspace=f2x20 has_bias=true"},
    {"aten::mkldnn_rnn_layer",
     "input=f3x2x4 weight0=f20x4 weight1=f20x5 weight2=f20 weight3=f20 hx_=f1x2x5 cx_=f1x2x5 reverse=false "
     "batch_sizes= "
     "mode=2 hidden_size=5 num_layers=1 has_biases=true bidirectional=false batch_first=false train=false"},
    {"aten::_pack_padded_sequence", "input=f3x2x4 lengths=i2=3 batch_first=false"},
    {"aten::_pack_padded_sequence_backward", "grad=f6x4 input_size=3,2,4 batch_sizes=i3=2 batch_first=false"},
    {"aten::_pad_packed_sequence",
     "data=f6x4 batch_sizes=i3=2 batch_first=false padding_value=0 total_length=3"},
    // attention
    {"aten::_native_multi_head_attention",
     "query=f2x3x4 key=f2x3x4 value=f2x3x4 embed_dim=4 num_head=2 qkv_weight=f12x4 qkv_bias=f12 "
     "proj_weight=f4x4 proj_bias=f4"},
    {"aten::_transform_bias_rescale_qkv", "qkv=f2x3x12 qkv_bias=f12 num_heads=2"},
    {"aten::_transformer_encoder_layer_fwd",
     "src=f2x3x4 embed_dim=4 num_heads=2 qkv_weight=f12x4 qkv_bias=f12 proj_weight=f4x4 proj_bias=f4 "
     "use_gelu=false "
     "norm_first=false eps=0.1 norm_weight_1=f4 norm_bias_1=f4 norm_weight_2=f4 norm_bias_2=f4 "
     "ffn_weight_1=f6x4 "
     "ffn_bias_1=f6 ffn_weight_2=f4x6 ffn_bias_2=f4"},
    // convolution
    {"aten::conv_transpose1d aten::slow_conv_transpose1d", "input=f1x2x4 weight=f2x3x2"},
    {"aten::slow_conv_transpose2d", "self=f1x2x4x4 weight=f2x3x2x2 kernel_size=2,2"},
    {"aten::slow_conv_transpose3d", "self=f1x2x4x4x4 weight=f2x3x2x2x2 kernel_size=2,2,2"},
    {"aten::slow_conv3d* aten::slow_conv_dilated3d",
     "self=f1x2x4x4x4 weight=f3x2x2x2x2 kernel_size=2,2,2 bias=f3 stride=1,1,1 padding=0,0,0"},
    {"aten::_slow_conv2d_backward.output_mask",
     "grad_output=f1x3x3x3 self=f1x2x4x4 weight=f3x2x2x2 kernel_size=2,2 stride=1,1 padding=0,0 "
     "output_mask=true,true,true"},
    {"aten::convolution_backward",
     "grad_output=f1x3x3x3 input=f1x2x4x4 weight=f3x2x2x2 bias_sizes=3 stride=1,1 padding=0,0 dilation=1,1 "
     "transposed=false output_padding=0,0 groups=1 output_mask=true,true,true"},
    {"aten::conv_tbc", "self=f4x2x3 weight=f2x3x5 bias=f5"},
    {"aten::conv_tbc_backward", "self=f3x2x5 input=f4x2x3 weight=f2x3x5 bias=f5 pad=0"},
    {"aten::col2im", "self=f1x4x9 output_size=4,4 kernel_size=2,2 dilation=1,1 padding=0,0 stride=1,1"},
    // resizing
    {"aten::*upsample*1d.vec", "input=f1x2x3 output_size=5 align_corners=false scale_factors=-"},
    {"aten::*upsample*2d.vec aten::*upsample*2d_aa.vec",
     "input=f1x2x3x3 output_size=5,5 align_corners=false scale_factors=-"},
    {"aten::*upsample*3d.vec", "input=f1x2x3x3x3 output_size=5,5,5 align_corners=false scale_factors=-"},
    {"aten::*upsample*1d_backward", "grad_output=f1x2x5 output_size=5 input_size=1,2,3"},
    {"aten::*upsample*2d_backward aten::*upsample*2d_aa_backward",
     "grad_output=f1x2x5x5 output_size=5,5 input_size=1,2,3,3"},
    {"aten::*upsample*3d_backward", "grad_output=f1x2x5x5x5 output_size=5,5,5 input_size=1,2,3,3,3"},
    {"aten::grid_sampler aten::grid_sampler_2d aten::_grid_sampler_2d_cpu_fallback*",
     "grad_output=f1x2x3x3 input=f1x2x4x4 grid=f1x3x3x2 interpolation_mode=0 padding_mode=0"},
    {"aten::grid_sampler_2d_backward",
     "grad_output=f1x2x3x3 input=f1x2x4x4 grid=f1x3x3x2 interpolation_mode=0 padding_mode=0 "
     "output_mask=true,true"},
    {"aten::grid_sampler_3d", "input=f1x2x4x4x4 grid=f1x3x3x3x3 interpolation_mode=0 padding_mode=0"},
    {"aten::grid_sampler_3d_backward",
     "grad_output=f1x2x3x3x3 input=f1x2x4x4x4 grid=f1x3x3x3x3 interpolation_mode=0 padding_mode=0 "
     "output_mask=true,true"},
    {"aten::affine_grid_generator", "theta=f1x2x3 size=1,2,4,4"},
    {"aten::affine_grid_generator_backward", "grad=f1x4x4x2 size=1,2,4,4"},
    // bags of embeddings
    {"aten::embedding_bag* aten::_embedding_bag aten::_embedding_bag_forward_only",
     "weight=f5x4 indices=i3 offsets=i2 padding_idx=-1"},
    {"aten::_embedding_bag_per_sample_weights_backward",
     "grad=f1x4 weight=f5x4 indices=i3 offsets=i1 offset2bag=i3 mode=0"},
    {"aten::_embedding_bag_backward aten::_embedding_bag_dense_backward",
     "grad=f1x4 indices=i3 offsets=i1 offset2bag=i3 bag_size=i1=3 maximum_indices=i0 num_weights=5 mode=0 "
     "per_sample_weights=-"},
    // spectra, matrices, distances
    {"aten::stft*", "self=f16 n_fft=4 return_complex=true"},
    {"aten::istft", "self=f3x5 n_fft=4 window=s4"},
    {"aten::_fft_c2r prims::fft_c2r", "self=f4x3 dim=1 normalization=0 last_dim_size=4"},
    {"aten::lu_solve", "self=f2x1 LU_data=f2x2 LU_pivots=w2=1"},
    {"aten::linalg_ldl_solve", "LD=f2x2 pivots=w2=1 B=f2x1"},
    {"aten::linalg_norm.ord_str", "self=f3x3 ord=fro"},
    {"aten::linalg_cond.p_str", "self=f1x1 p=fro"},
    {"aten::nuclear_norm.dim", "self=f3x3 dim=0,1"},
    {"aten::linalg_tensorinv", "self=f1x1 ind=1"},
    {"aten::_linalg_check_errors", "info=w2=0 api_name=linalg.inv is_matrix=false"},
    {"aten::_pdist_backward", "grad=f3 self=f3x2 p=2 pdist=f3"},
    {"aten::_scaled_mm", "self=f16x16 mat2=f16x16 scale_a=s scale_b=s"},
    {"transformers::grouped_mm_fallback", "input=f4x3 weight=f2x3x5 offs=w2=2"},
    {"transformers::grouped_mm_weight", "input=f4x3 other=f4x5 offs=w1=4"},
    // losses
    {"aten::nll_loss2d", "self=f1x2x3x3 target=i1x3x3"},
    {"aten::_ctc_loss", "log_probs=f4x1x3 targets=i1x2=1 input_lengths=4 target_lengths=2"},
    {"aten::_ctc_loss.Tensor aten::ctc_loss.Tensor",
     "log_probs=f4x1x3 targets=i1x2=1 input_lengths=i1=4 target_lengths=i1=2"},
    {"aten::_ctc_loss_backward.Tensor",
     "grad=f1 log_probs=f4x1x3 targets=i1x2=1 input_lengths=i1=4 target_lengths=i1=2 neg_log_likelihood=f1 "
     "log_alpha=f1x4x5 "
     "blank=0"},
    {"aten::_amp_update_scale", "self=s1 growth_tracker=w1=0 found_inf=s1"},
    // copies, differences, lists
    {"aten::gradient.scalarrayarray", "self=f3x3 spacing=1,1 dim=0,1"},
    {"aten::gradient.tensorarrayint", "self=f3x3 spacing=f3 dim=0"},
    {"aten::gradient.tensorarray", "self=f3x3 spacing=f3,f3 dim=0,1"},
    {"aten::_rowwise_prune", "weight=f3x2 mask=b3 compressed_indices_dtype=long"},
    {"aten::empty_permuted", "size=2,3 physical_layout=0,1 dtype=f"},
    {"aten::diagonal_backward", "grad_output=f3 input_sizes=3,3 offset=0 dim1=0 dim2=1"},
    {"aten::_foreach_addc*.Tensor", "self=f3,f2 tensor1=f3,f2 tensor2=f3,f2 scalars=f2"},
    {"aten::_reshape_from_tensor", "self=f4 shape=i1=4"},
    {"aten::unflatten_dense_tensors", "flat=f5 tensors=f3,f2"},
    {"aten::narrow.Tensor", "self=f3 dim=0 start=i=0 length=2"},
    {"aten::histogramdd.TensorList_bins", "self=f4x1 bins=f3"},
    {"aten::_sobol_engine_draw", "quasi=i2 n=1 sobolstate=i2x30 dimension=2 num_generated=0 dtype=f"},
    {"prims::broadcast_in_dim", "a=f3 shape=2,3 broadcast_dimensions=1"},
    {"prims::transpose", "a=f2x3 permutation=1,0"},
    {"aten::_jagged_to_padded_dense_forward", "values=f2x3 offsets=i1 max_lengths=2"},
    {"aten::_padded_dense_to_jagged_forward", "dense=f1x2x3 offsets=i1"},
    {"aten::_fused_rms_norm", "input=f2x3 normalized_shape=3 weight=- eps=0.1"},
    // nested tensors
    {"aten::_nested_from_padded", "padded=f2x2x3 cpu_nested_shape_example=i2x2=1"},
    {"aten::_nested_from_padded_and_nested_example", "padded=f2x2x3 nt_example=n2x3"},
    {"aten::_nested_tensor_from_mask*", "t=f2x2x3 mask=b2x2"},
    {"aten::_nested_view_from_buffer*", "self=f6 nested_size=i1x1=6 nested_strides=i1x1=1 offsets=i1=0"},
    {"aten::to_padded_tensor aten::nested_to_padded_tensor", "self=n2x3 padding=0"},
    {"aten::_nested_tensor_* aten::values aten::values_copy", "self=n2x3"},
    // quantized tensors and what makes them
    {"aten::_fake_quantize_learnable_per_channel_affine*",
     "grad=f2x3 self=f2x3 scale=f2 zero_point=f2 axis=0 quant_min=0 quant_max=255"},
    {"aten::_fake_quantize_learnable_per_tensor_affine*",
     "grad=f2x3 self=f2x3 scale=f1 zero_point=f1 quant_min=0 quant_max=255"},
    {"quantized_decomposed::quantize_per_tensor.tensor",
     "input=f2x3 scale=s zero_point=i quant_min=0 quant_max=255 dtype=uint8"},
    {"quantized_decomposed::quantize_per_tensor",
     "input=f2x3 scale=0.5 zero_point=0 quant_min=0 quant_max=255 dtype=uint8"},
    {"quantized_decomposed::quantize_per_channel",
     "input=f2x3 scales=s2 zero_points=i2 axis=0 quant_min=0 quant_max=255 dtype=uint8"},
    {"quantized_decomposed::quantize_per_channel_group",
     "input=f2x4 scales=s2x1 zero_points=i2x1 quant_min=-8 quant_max=7 dtype=int8 group_size=4"},
    {"quantized_decomposed::dequantize_per_channel_group",
     "input=f2x4 scales=s2x1 zero_points=i2x1 quant_min=-8 quant_max=7 dtype=int8 group_size=4 "
     "output_dtype=float"},
    {"aten::quantize_per_channel", "self=f2x3 scales=s2 zero_points=i2 axis=0 dtype=quint8"},
    {"aten::quantize_per_tensor.tensors", "tensors=f2x3 scales=s1 zero_points=i1 dtype=quint8"},
    {"aten::quantize_per_tensor.tensor_qparams", "self=f2x3 scale=s zero_point=i dtype=quint8"},
    {"aten::quantize_per_tensor", "self=f2x3 scale=0.5 zero_point=0 dtype=quint8"},
    {"aten::_empty_affine_quantized", "size=2,3 dtype=q"},
    {"aten::_empty_per_channel_affine_quantized", "size=2,3 scales=s2 zero_points=i2 axis=0 dtype=q"},
    {"aten::empty_quantized", "size=2,3 qtensor=q2x3"},
    {"aten::q_per_channel_*", "self=c2x3"},
    {"aten::int_repr aten::q_scale aten::q_zero_point aten::qscheme", "self=q2x3"},
    {"aten::quantized_batch_norm",
     "input=q1x2x3x3 weight=s2 bias=s2 mean=s2 var=s2 eps=0.1 output_scale=0.1 output_zero_point=0"},
    {"quantized::batch_norm1d* quantized::batch_norm", "qx=q2x2x3 weight=s2 bias=s2 mean=s2 var=s2"},
    {"quantized::batch_norm3d*", "qx=q1x2x3x3x3 weight=s2 bias=s2 mean=s2 var=s2"},
    {"quantized::batch_norm*", "qx=q1x2x3x3 weight=s2 bias=s2 mean=s2 var=s2"},
    {"quantized::instance_norm", "input=q1x2x3x3 weight=s2 bias=s2"},
    {"quantized::group_norm", "input=q1x2x3x3 num_groups=1 weight=s2 bias=s2"},
    {"quantized::layer_norm", "input=q2x3 normalized_shape=3 weight=s3 bias=s3"},
    {"quantized::prelu", "qx=q2x3 weight=q1"},
    {"quantized::max_pool1d", "qx=q1x2x4 kernel_size=2 stride=2 padding=0 dilation=1"},
    {"quantized::max_pool2d", "qx=q1x2x4x4 kernel_size=2,2 stride=2,2 padding=0,0 dilation=1,1"},
    {"quantized::cat*", "qx=q2x3,q2x3 dim=0 scale=0.1 zero_point=0"},
    {"quantized::embedding_bag_byte_rowwise_offsets", "weight=y5x12 indices=i3 offsets=i2"},
    {"quantized::embedding_bag_byte_unpack", "weight=y5x12"},
    {"quantized::add_scalar*.Tensor quantized::mul_scalar*.Tensor", "qa=q2x3 b=s"},
    {"quantized::add* quantized::mul* quantized::matmul", "qa=q2x2 qb=q2x2 b=0.5"},
    {"quantized::softmax", "qx=q2x3 dim=1"},
    {"quantized::*", "qx=q2x3 self=q2x3 input=q2x3"},
};

bool fits(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  name.remove_prefix(star);
  for (size_t skip = 0; skip <= name.size(); ++skip)
    if (fits(pattern.substr(star + 1), name.substr(skip))) return true;
  return false;
}

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t at = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, at));
    text.remove_prefix(std::min(text.size(), at + 1));
  }
  return parts;
}
double number_of(std::string_view text) { return std::strtod(std::string(text).c_str(), nullptr); }

Tensor tensor_of(std::string_view text, DType dtype) {
  const char kind = text[0];
  const std::vector<std::string_view> halves = parts_of(text.substr(1), '=');
  const bool filled = text.find('=') != std::string_view::npos;
  Dims sizes;
  if (!halves.empty() && text[1] != '=')
    for (std::string_view size : parts_of(halves[0], 'x'))
      sizes.push_back(static_cast<int64_t>(number_of(size)));
  const bool whole = kind == 'i' || kind == 'w' || kind == 'y';
  const double value = filled ? number_of(halves.back()) : whole ? 0 : 1;
  if (kind == 'q') return quantize_per_tensor(ones(sizes, kFloat), 0.1, 0, dtype);
  if (kind == 'c')
    return quantize_per_channel(ones(sizes, kFloat), full({sizes[0]}, 0.5), zeros({sizes[0]}, kLong), 0,
                                dtype);
  if (kind == 'n') return nested_tensor({ones(sizes, dtype), ones(sizes, dtype)});
  const DType fixed = kind == 's'   ? kFloat
                      : kind == 'i' ? kLong
                      : kind == 'w' ? kInt
                      : kind == 'y' ? kByte
                      : kind == 'b' ? kBool
                                    : dtype;
  return full(sizes, value, fixed);
}

DType dtype_of(std::string_view text, DType tried) {
  constexpr std::pair<std::string_view, DType> named[] = {
      {"long", kLong}, {"uint8", kByte}, {"int8", kChar}, {"float", kFloat}, {"quint8", DType::quint8}};
  for (const auto& [name, dtype] : named)
    if (text == name) return dtype;
  return tried;
}

Value item_of(BaseType type, std::string_view text, DType dtype) {
  switch (type) {
    case BaseType::tensor:
      return Value(tensor_of(text, dtype));
    case BaseType::bool_:
      return Value(text == "true");
    case BaseType::dtype:
      return Value(dtype_of(text, dtype));
    case BaseType::string:
      return Value(std::string(text));
    case BaseType::float_:
      return Value(number_of(text));
    case BaseType::scalar:
      if (text.find('.') != std::string_view::npos) return Value(number_of(text));
      [[fallthrough]];
    default:
      return Value(static_cast<int64_t>(number_of(text)));
  }
}

}  // namespace

const char* call_of(const Op& op) {
  const std::string name = op.qualified();
  for (const Call& call : calls)
    for (std::string_view pattern : parts_of(call.names, ' '))
      if (fits(pattern, name)) return call.arguments;
  return nullptr;
}

bool takes_quantized(const char* call) {
  for (std::string_view argument : parts_of(call, ' '))
    for (std::string_view item : parts_of(argument.substr(argument.find('=') + 1), ','))
      if (item == "q" || (item.size() > 1 && (item[0] == 'q' || item[0] == 'c') && std::isdigit(item[1])))
        return true;
  return false;
}

std::optional<Value> written_value(const char* call, const SchemaArg& arg, DType dtype) {
  for (std::string_view argument : parts_of(call, ' ')) {
    const size_t equals = argument.find('=');
    if (argument.substr(0, equals) != arg.name.view()) continue;
    const std::string_view text = argument.substr(equals + 1);
    if (text == "-") return Value();
    if (!arg.type.list) return item_of(arg.type.base, text, dtype);
    if (arg.type.base == BaseType::tensor) {
      std::vector<Tensor> tensors;
      for (std::string_view item : parts_of(text, ',')) tensors.push_back(tensor_of(item, dtype));
      return Value(std::move(tensors));
    }
    std::vector<Value> items;
    for (std::string_view item : parts_of(text, ',')) items.push_back(item_of(arg.type.base, item, dtype));
    return Value::list(std::move(items));
  }
  return std::nullopt;
}

}  // namespace tern::command
