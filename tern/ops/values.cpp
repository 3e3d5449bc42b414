// Tensor::to_vector: the elements as C++ values, whatever the layout and element type.
#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/dispatch/recording.h"

namespace tern {

template <class T>
std::vector<T> Tensor::to_vector() const {
  if (!defined()) fail("to_vector(): the tensor is undefined");
  if (is_fake() || is_symbolic()) fail("to_vector(): a tensor without data has no values to give");
  if (is_nested()) fail("to_vector(): the tensor is nested: unbind() gives its tensors");
  note_left(*this, "a Python list");
  Tensor values = make_tensor(sizes(), dtype_of<T>);
  copy_elements(*this, values);
  const T* data = static_cast<const T*>(values.data());
  return std::vector<T>(data, data + values.int_numel());
}
template std::vector<double> Tensor::to_vector<double>() const;
template std::vector<float> Tensor::to_vector<float>() const;
template std::vector<int64_t> Tensor::to_vector<int64_t>() const;
template std::vector<int32_t> Tensor::to_vector<int32_t>() const;
template std::vector<uint8_t> Tensor::to_vector<uint8_t>() const;
template std::vector<bool> Tensor::to_vector<bool>() const;

}  // namespace tern
