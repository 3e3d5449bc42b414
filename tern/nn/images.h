// Resizing, sampling, blocks of images and bags of embeddings: functional forms and layers.
#pragma once
#include "tern/nn/layers.h"

namespace tern::nn {

namespace F {

struct InterpolateArgs {
  std::vector<SymInt> size = {};          // one number stands for every dimension
  std::vector<double> scale_factor = {};  // instead of a size
  std::string mode = "nearest";  // nearest-exact, linear, bilinear, bicubic, trilinear, area, lanczos
  std::optional<bool> align_corners = {};
  bool recompute_scale_factor = false, antialias = false;
};
Tensor interpolate(const Tensor& x, const InterpolateArgs& args, Loc loc = Loc::here());
// mode: bilinear, nearest, bicubic; padding_mode: zeros, border, reflection.
Tensor grid_sample(const Tensor& x, const Tensor& grid, std::string_view mode = "bilinear",
                   std::string_view padding_mode = "zeros", bool align_corners = false,
                   Loc loc = Loc::here());
Tensor affine_grid(const Tensor& theta, Sizes size, bool align_corners = false, Loc loc = Loc::here());
Tensor pixel_shuffle(const Tensor& x, int64_t upscale_factor, Loc loc = Loc::here());
Tensor pixel_unshuffle(const Tensor& x, int64_t downscale_factor, Loc loc = Loc::here());
Tensor channel_shuffle(const Tensor& x, int64_t groups, Loc loc = Loc::here());
struct UnfoldArgs {
  Extent<2> dilation = 1, padding = 0, stride = 1;
};
Tensor unfold(const Tensor& x, Extent<2> kernel_size, const UnfoldArgs& args = {}, Loc loc = Loc::here());
Tensor fold(const Tensor& x, Sizes output_size, Extent<2> kernel_size, const UnfoldArgs& args = {},
            Loc loc = Loc::here());
struct EmbeddingBagArgs {
  std::string mode = "mean";  // sum, mean, max
  bool scale_grad_by_freq = false, sparse = false, include_last_offset = false;
  Tensor per_sample_weights = {};  // of mode sum
  std::optional<int64_t> padding_idx = {};
  std::optional<double> max_norm = {};  // rows that are read are shortened to it, in place
  double norm_type = 2;
};
// input: (bags, n) without offsets, or one dimension with offsets.
Tensor embedding_bag(const Tensor& input, const Tensor& weight, const Tensor& offsets = {},
                     const EmbeddingBagArgs& args = {}, Loc loc = Loc::here());
Tensor local_response_norm(const Tensor& x, int64_t size, double alpha = 1e-4, double beta = 0.75,
                           double k = 1, Loc loc = Loc::here());
Tensor lp_pool1d(const Tensor& x, double norm_type, int64_t kernel, std::optional<int64_t> stride = {},
                 bool ceil_mode = false, Loc loc = Loc::here());
Tensor lp_pool2d(const Tensor& x, double norm_type, Extent<2> kernel, Extent<2> stride = {},
                 bool ceil_mode = false, Loc loc = Loc::here());
Tensor lp_pool3d(const Tensor& x, double norm_type, Extent<3> kernel, Extent<3> stride = {},
                 bool ceil_mode = false, Loc loc = Loc::here());
// output_size: empty, as many sizes as dimensions, or all sizes of the input of the pooling.
Tensor max_unpool1d(const Tensor& x, const Tensor& indices, Extent<1> kernel, Extent<1> stride = {},
                    Extent<1> padding = 0, Sizes output_size = {}, Loc loc = Loc::here());
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, Extent<2> kernel, Extent<2> stride = {},
                    Extent<2> padding = 0, Sizes output_size = {}, Loc loc = Loc::here());
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, Extent<3> kernel, Extent<3> stride = {},
                    Extent<3> padding = 0, Sizes output_size = {}, Loc loc = Loc::here());
// Either output_size or output_ratio (one number, or one a dimension). `places` in [0, 1) says where the
// windows lie: (N, C, dims); drawn where it is not given.
std::tuple<Tensor, Tensor> fractional_max_pool2d_with_indices(const Tensor& x, Extent<2> kernel,
                                                              Extent<2> output_size = {},
                                                              Span<const double> output_ratio = {},
                                                              const Tensor& places = {},
                                                              Loc loc = Loc::here());
std::tuple<Tensor, Tensor> fractional_max_pool3d_with_indices(const Tensor& x, Extent<3> kernel,
                                                              Extent<3> output_size = {},
                                                              Span<const double> output_ratio = {},
                                                              const Tensor& places = {},
                                                              Loc loc = Loc::here());

}  // namespace F

struct UpsampleOptions {
  std::vector<SymInt> size = {};
  std::vector<double> scale_factor = {};
  std::string mode = "nearest";
  std::optional<bool> align_corners = {};
  bool recompute_scale_factor = false;
};
class Upsample : public Builtin<Upsample> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.upsampling.Upsample";
  explicit Upsample(UpsampleOptions options);
  Tensor forward(const Tensor& x);
  UpsampleOptions options;
};

// Upsample with one mode; bilinear is with aligned corners.
class UpsamplingNearest2d : public Builtin<UpsamplingNearest2d> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.upsampling.UpsamplingNearest2d";
  explicit UpsamplingNearest2d(UpsampleOptions options);
  Tensor forward(const Tensor& x);
  UpsampleOptions options;
};
class UpsamplingBilinear2d : public Builtin<UpsamplingBilinear2d> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.upsampling.UpsamplingBilinear2d";
  explicit UpsamplingBilinear2d(UpsampleOptions options);
  Tensor forward(const Tensor& x);
  UpsampleOptions options;
};

class PixelShuffle : public Builtin<PixelShuffle> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.pixelshuffle.PixelShuffle";
  explicit PixelShuffle(int64_t upscale_factor);
  Tensor forward(const Tensor& x) { return F::pixel_shuffle(x, upscale_factor); }
  int64_t upscale_factor;
};
class PixelUnshuffle : public Builtin<PixelUnshuffle> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.pixelshuffle.PixelUnshuffle";
  explicit PixelUnshuffle(int64_t downscale_factor);
  Tensor forward(const Tensor& x) { return F::pixel_unshuffle(x, downscale_factor); }
  int64_t downscale_factor;
};
class ChannelShuffle : public Builtin<ChannelShuffle> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.channelshuffle.ChannelShuffle";
  explicit ChannelShuffle(int64_t groups);
  Tensor forward(const Tensor& x) { return F::channel_shuffle(x, groups); }
  int64_t groups;
};

struct UnfoldOptions {
  Extent<2> kernel;
  Extent<2> dilation = 1, padding = 0, stride = 1;
};
class Unfold : public Builtin<Unfold> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.fold.Unfold";
  explicit Unfold(const UnfoldOptions& options);
  explicit Unfold(Extent<2> kernel) : Unfold(UnfoldOptions{.kernel = kernel}) {}
  Tensor forward(const Tensor& x);
  UnfoldOptions options;
};
struct FoldOptions {
  Extent<2> output_size, kernel;
  Extent<2> dilation = 1, padding = 0, stride = 1;
};
class Fold : public Builtin<Fold> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.fold.Fold";
  explicit Fold(const FoldOptions& options);
  Fold(Extent<2> output_size, Extent<2> kernel) : Fold(FoldOptions{output_size, kernel}) {}
  Tensor forward(const Tensor& x);
  FoldOptions options;
};

struct EmbeddingBagOptions {
  int64_t count, dim;
  std::string mode = "mean";
  bool scale_grad_by_freq = false, sparse = false, include_last_offset = false;
  std::optional<int64_t> padding_idx = {};
  DType dtype = DType::undefined;
  Device device = kCPU;
  std::optional<double> max_norm = {};
  double norm_type = 2;
};
class EmbeddingBag : public Builtin<EmbeddingBag> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.sparse.EmbeddingBag";
  explicit EmbeddingBag(const EmbeddingBagOptions& options);
  EmbeddingBag(int64_t count, int64_t dim) : EmbeddingBag(EmbeddingBagOptions{count, dim}) {}
  Tensor forward(const Tensor& input, const Tensor& offsets = {}, const Tensor& per_sample_weights = {});
  EmbeddingBagOptions options;
  Parameter weight;
};

class LocalResponseNorm : public Builtin<LocalResponseNorm> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.normalization.LocalResponseNorm";
  explicit LocalResponseNorm(int64_t size, double alpha = 1e-4, double beta = 0.75, double k = 1);
  Tensor forward(const Tensor& x) { return F::local_response_norm(x, size, alpha, beta, k); }
  int64_t size;
  double alpha, beta, k;
};

// The same across channels of images, with the gradient PyTorch's has.
class CrossMapLRN2d : public Builtin<CrossMapLRN2d> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.normalization.CrossMapLRN2d";
  explicit CrossMapLRN2d(int64_t size, double alpha = 1e-4, double beta = 0.75, double k = 1);
  Tensor forward(const Tensor& x);
  int64_t size;
  double alpha, beta, k;
};

struct BilinearOptions {
  int64_t in1, in2, out;
  bool bias = true;
  DType dtype = DType::undefined;
  Device device = kCPU;
};
class Bilinear : public Builtin<Bilinear> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.linear.Bilinear";
  explicit Bilinear(const BilinearOptions& options);
  Bilinear(int64_t in1, int64_t in2, int64_t out) : Bilinear(BilinearOptions{in1, in2, out}) {}
  Tensor forward(const Tensor& a, const Tensor& b);
  BilinearOptions options;
  Parameter weight, bias;
};

class CosineSimilarity : public Builtin<CosineSimilarity> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.distance.CosineSimilarity";
  explicit CosineSimilarity(int64_t dim = 1, double eps = 1e-8) : dim(dim), eps(eps) {}
  Tensor forward(const Tensor& a, const Tensor& b);
  int64_t dim;
  double eps;
};
class PairwiseDistance : public Builtin<PairwiseDistance> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.distance.PairwiseDistance";
  explicit PairwiseDistance(double p = 2, double eps = 1e-6, bool keepdim = false)
      : p(p), eps(eps), keepdim(keepdim) {}
  Tensor forward(const Tensor& a, const Tensor& b);
  double p, eps;
  bool keepdim;
};

}  // namespace tern::nn
