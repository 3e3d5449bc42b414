// Helpers that the gradient formulas and bodies in the .ops files are written with.
#pragma once
#include <complex>
#include <optional>
#include <tuple>

#include "tern/tensor/tensor.h"

namespace tern {

struct GradContext;
struct Shape;

inline Scalar conj(const Scalar& s) { return s.is_complex() ? Scalar(std::conj(s.to_complex())) : s; }
Tensor times(const Tensor& t, const Scalar& factor);  // t itself when the factor is one
// a / b, divided in double precision: a number, or a tensor of this type where a size is symbolic.
Tensor quotient(const Scalar& a, SymInt b, DType type);
// In place by way of a new value: refuses a result that self's type cannot hold.
Tensor write_result(const Tensor& self, const Tensor& result);
// Self for gradients that ask for it after it was written to: a copy where a history is kept.
Tensor as_it_was(const Tensor& self, const Tensor& other = {});
// Sums over what broadcasting added, so that the result has these sizes.
Tensor sum_to(const Tensor& t, Span<const SymInt> sizes);

// Ones on the diagonal, in as few operators as eye() becomes (creation/creation.cpp).
Tensor identity(SymInt n, SymInt m, std::optional<DType> dtype, std::optional<Device> device);

// Views (view/formulas.cpp).
SmallVector<int64_t, 6> inverse_permutation(Ints dims);
SmallVector<int64_t, 6> swapped_dims(int64_t ndim, int64_t a, int64_t b);  // 0, 1, ... with two exchanged
SmallVector<int64_t, 6> reversed_dims(int64_t ndim);
Dims negated(Span<const SymInt> values);
// The gradients of an operator that gives a list, zeros where nothing flowed back.
std::vector<Tensor> list_gradients(GradContext& context);
Tensor as_strided_backward(const Tensor& grad, const Tensor& self, Span<const SymInt> size,
                           Span<const SymInt> stride, std::optional<SymInt> offset);
std::tuple<Tensor, Tensor> euclidean_dist_backward(const Tensor& grad, const Tensor& x1, const Tensor& x2,
                                                   const Tensor& result);
Tensor difference(const Tensor& self, const Tensor& target);  // of a loss (loss/loss.cpp)
Tensor ldexp_body(const Tensor& self, const Tensor& other);
// Nested tensors (nested/nested.cpp): a buffer seen as the nested tensor whose meaning is given, and the
// gradient of a buffer of `numel` elements that was seen as one.
Tensor nested_again(const Tensor& buffer, const Shared<const Meaning>& nesting);
Tensor nested_view_backward(const Tensor& grad, SymInt numel, const Tensor& sizes, const Tensor& strides,
                            const Tensor& offsets);
// Indices (index/).
Tensor index_select_backward(const Tensor& grad, Span<const SymInt> sizes, int64_t dim, const Tensor& index);
Tensor index_select_shaped(const Tensor& grad, int64_t dim, const Tensor& index, Span<const SymInt> sizes);
Tensor embedding_double_backward(const Tensor& grad, const Tensor& indices, SymInt padding_idx);
std::tuple<Tensor, Tensor> scatter_reduce_backward(const Tensor& grad, const Tensor& self, int64_t dim,
                                                   const Tensor& index, const Tensor& src,
                                                   std::string_view reduce, bool include_self,
                                                   const Tensor& result);
Tensor masked_select_backward(const Tensor& grad, Span<const SymInt> sizes, const Tensor& mask);
// Convolution (conv/conv.cpp).
std::optional<Span<const SymInt>> sizes_if_defined(const Tensor& t);
Dims as_dims(Ints list);
std::tuple<Tensor, Tensor, Tensor> convolution_double_backward(
    GradContext& context, const Tensor& grad_output, const Tensor& input, const Tensor& weight,
    Span<const SymInt> stride, Span<const SymInt> padding, Span<const SymInt> dilation, bool transposed,
    Span<const SymInt> output_padding, SymInt groups);
Tensor conv_nd(int64_t dims, const Tensor& input, const Tensor& weight, const Tensor& bias,
               Span<const SymInt> stride, Span<const SymInt> padding, Span<const SymInt> dilation,
               bool transposed, Span<const SymInt> output_padding, SymInt groups);
Tensor conv_nd_mode(int64_t dims, const Tensor& input, const Tensor& weight, const Tensor& bias,
                    Span<const SymInt> stride, std::string_view padding, Span<const SymInt> dilation,
                    SymInt groups);
Tensor conv_with_mode(const Tensor& input, const Tensor& weight, const Tensor& bias,
                      Span<const SymInt> stride, std::string_view padding, Span<const SymInt> dilation,
                      SymInt groups);
// Pooling and padding (pool/).
Tensor pick_pooled(const Tensor& t, const Tensor& indices, int64_t dims);
Dims last_sizes(Span<const SymInt> sizes, int64_t n);
Tensor adaptive_avg(const Tensor& self, Span<const SymInt> output_size, int64_t dims);
Tensor border_backward(const Tensor& grad, Span<const SymInt> sizes, Span<const SymInt> padding,
                       bool reflect);
Tensor circular_backward(const Tensor& grad, Span<const SymInt> sizes, Span<const SymInt> pad);
// Resizing (upsample/). The sizes asked for by .vec: given, or from factors; exactly one of them.
Dims resized(const Tensor& input, std::optional<Span<const SymInt>> output_size,
             std::optional<Span<const double>> factors);
std::optional<double> factor_at(std::optional<Span<const double>> factors, size_t i);
Tensor nearest_body(const Tensor& self, Span<const SymInt> output_size,
                    std::initializer_list<std::optional<double>> factors, bool exact);
Tensor linear_body(const Tensor& self, Span<const SymInt> output_size, bool align_corners,
                   std::initializer_list<std::optional<double>> factors);
Tensor cubic_body(const Tensor& self, Span<const SymInt> output_size, bool align_corners,
                  std::initializer_list<std::optional<double>> factors);
// Sampling at a grid, derived twice (vision/grid_gradients.cpp): gradients of grad_output, input and grid.
std::tuple<Tensor, Tensor, Tensor> grid_sampler_double_backward(GradContext& context,
                                                                const Tensor& grad_output,
                                                                const Tensor& input, const Tensor& grid,
                                                                int64_t mode, int64_t padding, bool align);
// Recurrent cells (rnn/cells.cpp): the fused backward operator, or plain operators where the gradient is to
// have a history.
using CellGrads = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;
CellGrads lstm_cell_grads(GradContext& context, const Tensor& input_gates, const Tensor& hidden_gates,
                          const Tensor& cx, const Tensor& input_bias, const Tensor& hidden_bias,
                          const Tensor& cy, const Tensor& workspace);
CellGrads gru_cell_grads(const Tensor& grad, const Tensor& input_gates, const Tensor& hidden_gates,
                         const Tensor& hx, const Tensor& input_bias, const Tensor& hidden_bias,
                         const Tensor& workspace);
std::vector<Tensor> cat_backward(const Tensor& grad, Span<const Tensor> tensors, int64_t dim);
Tensor repeat_backward(const Tensor& grad, Span<const SymInt> repeats, Span<const SymInt> sizes);

// The rule of elementwise operators for kernels that choose their loop themselves: common size, layout of the
// first full input.
Shape broadcast_shape(Span<const Tensor> tensors, DType dtype);

// Arithmetic (arithmetic/formulas.cpp).
Tensor angle_backward(const Tensor& grad, const Tensor& self);
Tensor sgn_backward(const Tensor& grad, const Tensor& self, const Tensor& result);
Tensor pow_backward(const Tensor& grad, const Tensor& self, const Scalar& exponent);
Tensor pow_backward_exponent(const Tensor& grad, const Tensor& self, const Tensor& exponent,
                             const Tensor& result);
Tensor pow_backward_exponent(const Tensor& grad, const Scalar& base, const Tensor& exponent,
                             const Tensor& result);
DType to_double_type(const Tensor& a, const Tensor& b);  // float64, or complex128 when one is complex
Tensor within(const Tensor& self, const std::optional<Scalar>& min,
              const std::optional<Scalar>& max);  // inside of both bounds
Tensor within(const Tensor& self, const Tensor& min, const Tensor& max);
Tensor within_unit(const Tensor& self,
                   std::optional<double> eps);  // inside of [eps, 1 - eps]; all without eps
Tensor clamp_bound_backward(const Tensor& grad, const Tensor& self, const Tensor& min, const Tensor& max,
                            bool lower);
Tensor round_decimals(const Tensor& self, int64_t decimals);

// Activations (activation/activation.cpp).
Tensor half_of(const Tensor& self, int64_t dim, int which);  // of glu's input; throws when the size is odd
Tensor elu_double_backward(const Tensor& grad, const Tensor& grad_output, const Scalar& alpha,
                           const Scalar& scale, const Scalar& input_scale, bool is_result,
                           const Tensor& self_or_result);
Tensor gelu_double_backward(const Tensor& grad, const Tensor& grad_output, const Tensor& self,
                            std::string_view approximate);
Tensor mish_double_backward(const Tensor& grad, const Tensor& grad_output, const Tensor& self);

// Matrix products (linear/matmul.cpp).
Tensor baddbmm_body(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
                    const Scalar& alpha);
Tensor addbmm_body(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
                   const Scalar& alpha);
Tensor addr_body(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Scalar& beta,
                 const Scalar& alpha);
std::tuple<Tensor, Tensor, Tensor> linear_backward(const Tensor& grad, const Tensor& input,
                                                   const Tensor& weight, Span<const bool> mask);

// Softmax (softmax/softmax.cpp).
Tensor softmax_body(const Tensor& self, int64_t dim, std::optional<DType> dtype, bool log);
Tensor softmax_double_backward(const Tensor& grad, const Tensor& grad_output, const Tensor& output,
                               int64_t dim);

// Normalisation (norm/formulas.cpp): the fused backward operator, or plain operators where the gradient is to
// have a history.
std::tuple<Tensor, Tensor, Tensor> layer_norm_grads(const Tensor& grad, const Tensor& input,
                                                    Span<const SymInt> shape, const Tensor& mean,
                                                    const Tensor& rstd, const Tensor& weight,
                                                    const Tensor& bias, double eps, Span<const bool> mask);
std::tuple<Tensor, Tensor, Tensor> group_norm_grads(GradContext& context, const Tensor& grad,
                                                    const Tensor& input, const Tensor& mean,
                                                    const Tensor& rstd, const Tensor& weight, SymInt N,
                                                    SymInt C, SymInt HxW, int64_t group, double eps,
                                                    Span<const bool> mask);
std::tuple<Tensor, Tensor, Tensor> batch_norm_grads(const Tensor& grad, const Tensor& input,
                                                    const Tensor& weight, const Tensor& running_mean,
                                                    const Tensor& running_var, const Tensor& save_mean,
                                                    const Tensor& save_invstd, bool train, double eps,
                                                    Span<const bool> mask);

// Losses (loss/). reduction: 0 none, 1 mean, 2 sum.
Tensor reduce_loss(const Tensor& each, int64_t reduction);
Tensor spread_loss(const Tensor& grad, const Tensor& like, int64_t reduction);  // the gradient of reduce_loss
Tensor weigh(const Tensor& each, const Tensor& weight);  // each·weight, where there is a weight
Tensor bce_body(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction);
std::tuple<Tensor, Tensor> nll_body(const Tensor& self, const Tensor& target, const Tensor& weight,
                                    int64_t reduction, SymInt ignore_index);
Tensor nll_backward_body(const Tensor& grad_output, const Tensor& self, const Tensor& target,
                         const Tensor& weight, int64_t reduction, SymInt ignore_index,
                         const Tensor& total_weight);

// Reductions (reduce/formulas.cpp). An empty or missing list of dims means all of them.
uint64_t dim_mask(Ints dims,
                  int64_t ndim);  // bit d: dim d is reduced; throws for a dim out of range or named twice
Dims reduced_sizes(Span<const SymInt> sizes, uint64_t mask, bool keepdim);
SymInt reduced_count(Span<const SymInt> sizes, Ints dims);      // how many elements become one
inline Ints all_dims() { return Ints(Span<const int64_t>()); }  // an empty list that was given
inline Ints dims_of(std::optional<int64_t> dim) { return dim ? Ints(*dim) : Ints(); }
Tensor restore_dims(const Tensor& t, Ints dims, int64_t ndim,
                    bool keepdim);  // the reduced dims again, of size one
Tensor spread(const Tensor& t, Span<const SymInt> sizes, Ints dims, bool keepdim);  // and expanded
Tensor share_among_equals(const Tensor& grad, const Tensor& self, const Tensor& result, Ints dims,
                          bool keepdim);
Tensor put_selected(const Tensor& grad, int64_t dim, const Tensor& indices, Span<const SymInt> sizes,
                    bool keepdim);
Tensor prod_backward(const Tensor& grad, const Tensor& self);
Tensor prod_backward(const Tensor& grad, const Tensor& self, int64_t dim, bool keepdim);
Tensor var_backward(const Tensor& grad, const Tensor& self, Ints dims, std::optional<Scalar> correction,
                    bool keepdim);
Tensor std_backward(const Tensor& grad, const Tensor& result, const Tensor& self, Ints dims,
                    std::optional<Scalar> correction, bool keepdim);
Tensor norm_backward(const Tensor& grad, const Tensor& self, const Scalar& p, const Tensor& result, Ints dims,
                     bool keepdim);
Tensor logsumexp_body(const Tensor& self, Ints dims, bool keepdim);
Tensor reversed_cumsum(const Tensor& t, int64_t dim);
Tensor cumprod_backward(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& result);
Tensor logcumsumexp_backward(const Tensor& grad, const Tensor& self, const Tensor& result, int64_t dim);

// Order statistics and small algebra (order/, algebra/, special/).
std::tuple<Tensor, Tensor> index_reduce_backward(const Tensor& grad, const Tensor& self, int64_t dim,
                                                 const Tensor& index, const Tensor& source,
                                                 std::string_view reduce, bool include_self,
                                                 const Tensor& result);
std::tuple<Tensor, Tensor> polar_backward(const Tensor& grad, const Tensor& result);
Tensor sinc_backward(const Tensor& grad, const Tensor& self);
Tensor i1_backward(const Tensor& grad, const Tensor& self, const Tensor& result);
Tensor i1e_backward(const Tensor& grad, const Tensor& self, const Tensor& result);
Tensor not_differentiable(std::string_view what);  // throws "the derivative for ... is not implemented"

// Fourier transforms (fft/).
Tensor fft_r2c_backward(const Tensor& grad, Ints dim, int64_t normalization, bool onesided, SymInt last_size);
Tensor fft_c2r_backward(const Tensor& grad, Ints dim, int64_t normalization);

// Matrix decompositions (linalg/gradients.cpp). A context says which results' gradients flowed back.
Tensor svd_backward(GradContext& context, const Tensor& U, const Tensor& S, const Tensor& Vh);
Tensor eigh_backward(GradContext& context, const Tensor& values, const Tensor& vectors);
// Products of Householder reflectors, alone and applied to a matrix.
std::tuple<Tensor, Tensor> householder_backward(const Tensor& grad, const Tensor& input, const Tensor& tau);
std::tuple<Tensor, Tensor> ormqr_backward(const Tensor& grad, const Tensor& self, const Tensor& tau,
                                          const Tensor& other, bool left, bool transpose);
// The tensor in the type of `self`, if an in-place operator may write it there; throws as PyTorch does
// otherwise.
Tensor checked_cast(const Tensor& result, const Tensor& self);
Tensor eig_backward(GradContext& context, const Tensor& values, const Tensor& vectors);
Tensor qr_backward(GradContext& context, const Tensor& Q, const Tensor& R, std::string_view mode);
Tensor lu_factor_backward(const Tensor& grad, const Tensor& LU, const Tensor& pivots, bool pivot);
Tensor lu_backward(GradContext& context, const Tensor& P, const Tensor& L, const Tensor& U, bool pivot);
Tensor lu_unpack_backward(GradContext& context, SymInt rows, SymInt columns);
Tensor cholesky_backward(const Tensor& grad, const Tensor& factor, bool upper);
Tensor cholesky_inverse_backward(const Tensor& grad, const Tensor& factor, bool upper, const Tensor& inverse);
std::tuple<Tensor, Tensor> cholesky_solve_backward(const Tensor& grad, const Tensor& factor, bool upper,
                                                   const Tensor& result);
std::tuple<Tensor, Tensor> solve_backward(GradContext& context, const Tensor& A, const Tensor& B,
                                          const Tensor& X, const Tensor& LU, const Tensor& pivots, bool left);
std::tuple<Tensor, Tensor> triangular_backward(const Tensor& grad, const Tensor& A, const Tensor& X,
                                               bool upper, bool left, bool unitriangular);
std::tuple<Tensor, Tensor> lu_solve_backward(const Tensor& grad, const Tensor& LU, const Tensor& pivots,
                                             const Tensor& X, bool left, bool adjoint);
Tensor det_backward(const Tensor& grad, const Tensor& det, const Tensor& A, const Tensor& LU,
                    const Tensor& pivots);
Tensor slogdet_backward(GradContext& context, const Tensor& A, const Tensor& sign, const Tensor& LU,
                        const Tensor& pivots);
std::tuple<Tensor, Tensor> lstsq_backward(GradContext& context, const Tensor& A, const Tensor& B,
                                          const Tensor& X);
Tensor pinv_backward(const Tensor& grad, const Tensor& pinv, const Tensor& A);

}  // namespace tern
