// Models: ONNX's protobuf messages.
#include "fuzz/targets.h"
#include "tern/onnx/onnx.h"

namespace tern::fuzz {

int onnx(const uint8_t* data, size_t size) {
  return survive([&] {
    tern::onnx::Model model =
        tern::onnx::read(io::own(std::vector<uint8_t>(data, data + size)), {.external_data = false});
    tern::onnx::check(model);
    survive([&] {
      std::string once = tern::onnx::to_bytes(model);
      must("what was written does not read", [&] {
        std::string twice = tern::onnx::to_bytes(tern::onnx::read(io::own(once), {.external_data = false}));
        if (once != twice) throw Finding("the model changed");
      });
    });
    survive([&] { tern::onnx::infer_shapes(model); });
    survive([&] { tern::onnx::import_model(model); });
  });
}

}  // namespace tern::fuzz
