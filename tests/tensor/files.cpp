// .npy, .npz and safetensors as tensors.
#include "tern/tensor/files.h"

#include <gtest/gtest.h>

#include "tern/base/error.h"
#include "tern/io/file.h"
#include "tern/ops.h"

namespace tern::testing {
namespace {

TEST(TensorFiles, round_trips_every_format) {
  io::TemporaryDir dir;
  TensorMap tensors{{"a", arange(6).view({2, 3})},
                    {"b", tensor({1.5, -2.}).to(kHalf)},
                    {"c", tensor(true)},
                    {"e", zeros({0, 2})}};
  for (const char* name : {"t.npz", "t.safetensors"}) {
    SCOPED_TRACE(name);
    save_tensors(dir / name, tensors);
    TensorMap back = load_tensors(dir / name);
    ASSERT_EQ(back.size(), tensors.size());
    for (const auto& [key, t] : tensors) {
      EXPECT_EQ(back[key].dtype(), t.dtype());
      EXPECT_EQ(str(back[key].sizes()), str(t.sizes()));
      EXPECT_EQ(back[key].to_vector<double>(), t.to_vector<double>());
    }
  }
}

TEST(TensorFiles, a_loaded_tensor_may_be_written_to_and_the_file_stays) {
  io::TemporaryDir dir;
  save_npy(dir / "x.npy", arange(4).t());
  load_npy(dir / "x.npy").fill_(7);
  EXPECT_EQ(load_npy(dir / "x.npy").to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(TensorFiles, what_a_format_has_not_is_refused) {
  io::TemporaryDir dir;
  try {
    save_npy(dir / "x.npy", ones({2}, kBFloat16));
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "save_npy: NumPy has no type for bfloat16; convert the tensor with to(kFloat) first");
  }
  EXPECT_THROW(load_tensors("x.txt"), Error);
}

}  // namespace
}  // namespace tern::testing
