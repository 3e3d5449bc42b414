// Packed weights: the objects of torch.classes.quantized and torch.classes.rnn that quantized layers hold. A
// file keeps their weight and bias; what the products read is made when they are.
#pragma once
#include "tern/base/function.h"
#include "tern/kernels/quantized.h"
#include "tern/tensor/quantizer.h"
#include "tern/tensor/value.h"

namespace tern::quantized {

inline constexpr std::string_view linear_class = "__torch__.torch.classes.quantized.LinearPackedParamsBase",
                                  conv2d_class = "__torch__.torch.classes.quantized.Conv2dPackedParamsBase",
                                  conv3d_class = "__torch__.torch.classes.quantized.Conv3dPackedParamsBase",
                                  embedding_class =
                                      "__torch__.torch.classes.quantized.EmbeddingPackedParamsBase",
                                  cell_class = "__torch__.torch.classes.rnn.CellParamsBase";

bool is_native_class(std::string_view name);
// The object a file describes; throws Error(value) for a state that is none of this class.
Value native_object(std::string_view class_name, const Value& state);

// The operator that does what a method of such a class does ("unpack"); empty if there is none.
std::string method_operator(std::string_view class_name, std::string_view method);

// The scale of each row of a weight, and its zero point.
struct RowParameters {
  std::vector<float> scales;
  std::vector<int32_t> zero_points;
  RowParameters() = default;
  RowParameters(const Tensor& weight, int64_t rows);
};

struct PackedLinear final : NativeObject {
  Tensor weight, bias;  // qint8 [out, in], or float32 whose values half precision holds
  bool half = false;
  RowParameters rows;
  kernels::QuantizedWeight matrix;

  std::string_view class_name() const override { return linear_class; }
  Value state() const override { return Value::tuple({Value(weight), Value(bias)}); }
  static Value make(const Tensor& weight, const Tensor& bias);
  static Value make_half(const Tensor& weight, const Tensor& bias);
  static const PackedLinear& of(const Value& v, const char* op);

  int64_t in_features() const { return weight.int_sizes()[1]; }
  int64_t out_features() const { return weight.int_sizes()[0]; }
  Tensor run(const Tensor& x, double scale, int64_t zero_point, bool relu) const;
  // The input's scale and zero point from its values; the result is float.
  Tensor run_dynamic(const Tensor& x, bool reduce_range, bool relu) const;
  Tensor run_float(const Tensor& x, double x_scale, int64_t x_zero_point, bool relu) const;
  Tensor run_half(const Tensor& x, bool relu) const;
};

struct ConvParameters {
  std::vector<int64_t> stride, padding, output_padding, dilation;
  int64_t groups = 1;
  bool transposed = false;
};

struct PackedConv final : NativeObject {
  int64_t dims = 2;     // of the class: one-dimensional ones are two, the first of size one
  Tensor weight, bias;  // qint8 [out, in/groups, kernel...], transposed [in, out/groups, kernel...]
  ConvParameters p;
  RowParameters rows;                              // of output channels
  std::vector<kernels::QuantizedWeight> matrices;  // of groups
  std::vector<int8_t> taps;                        // depthwise: [kernel positions, channels]
  bool shifted = false;                            // depthwise: the weight has zero points

  std::string_view class_name() const override { return dims == 2 ? conv2d_class : conv3d_class; }
  Value state() const override;
  static Value make(int64_t dims, const Tensor& weight, const Tensor& bias, ConvParameters parameters);
  static const PackedConv& of(const Value& v, const char* op);

  int64_t in_channels() const;
  int64_t out_channels() const;
  // x is [batch, channels, spatial...] with `dims` spatial dimensions.
  Tensor run(const Tensor& x, double scale, int64_t zero_point, bool relu) const;
};

struct PackedEmbedding final : NativeObject {
  Tensor weight;                       // quint8 [rows, dim], per channel with float zero points
  std::vector<float> scales, offsets;  // real = q * scale + offset
  std::string_view class_name() const override { return embedding_class; }
  Value state() const override;
  static Value make(const Tensor& weight);
  static const PackedEmbedding& of(const Value& v, const char* op);
};

// The weights of one direction of one recurrent layer.
struct CellParameters final : NativeObject {
  Value input, hidden;  // PackedLinear
  Tensor input_bias, hidden_bias;
  bool half = false, reduce_range = false;
  std::string_view class_name() const override { return cell_class; }
  Value state() const override;
  static const CellParameters& of(const Value& v, const char* op);
};

// A product with a packed weight and an input that is quantized as it comes, or half precision.
using Product = Function<Tensor(const Tensor& x)>;
Product packed_product(const Value& weight, bool reduce_range);
Product expanded_product(const Value& weight, bool reduce_range);  // without quantized tensors

}  // namespace tern::quantized
