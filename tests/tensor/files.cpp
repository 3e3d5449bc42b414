// .npy, .npz and safetensors as tensors.
#include "tern/tensor/files.h"

#include <gtest/gtest.h>

#include "tern/base/error.h"
#include "tern/io/file.h"
#include "tern/ops.h"
#include "tests/support/errors.h"

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

TEST(TensorFiles, safetensors_have_every_type_but_complex128) {
  io::TemporaryDir dir;
  for (DType d : {DType::uint8, DType::uint16, DType::uint32, DType::uint64, DType::int8, DType::int16,
                  DType::int32, DType::int64, kHalf, kBFloat16, kFloat, kDouble, DType::float8_e4m3fn,
                  DType::float8_e5m2, DType::float8_e4m3fnuz, DType::float8_e5m2fnuz, kBool}) {
    SCOPED_TRACE(name(d));
    Tensor t = arange(6).to(d).view({2, 3});
    save_safetensors(dir / "t.safetensors", {{"t", t.t()}});
    Tensor back = load_safetensors(dir / "t.safetensors").at("t");
    EXPECT_EQ(back.dtype(), d);
    EXPECT_EQ(back.to_vector<double>(), t.t().to_vector<double>());
  }
  Tensor c = view_as_complex(tensor({1., -2.}, {.dtype = kFloat}));
  save_safetensors(dir / "t.safetensors", {{"t", c}});
  EXPECT_EQ(load_safetensors(dir / "t.safetensors").at("t").str(), c.str());
  EXPECT_THROW(save_safetensors(dir / "t.safetensors", {{"t", c.to(kComplexDouble)}}), Error);
  EXPECT_EQ(error_of([&] {
              save_safetensors(dir / "t.safetensors", {{"t", Tensor()}});
            }),
            "save_safetensors: t: the tensor is undefined");
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
    EXPECT_STREQ(
        e.what(),
        "save_npy: NumPy has no type for bfloat16; save a .safetensors, or convert the tensor first");
  }
  EXPECT_THROW(load_tensors("x.txt"), Error);
}

}  // namespace
}  // namespace tern::testing
