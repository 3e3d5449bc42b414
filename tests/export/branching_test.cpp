// Scripts whose paths depend on data become programs: PyTorch and ONNX Runtime get the script's numbers from
// them. What a program cannot say is refused, never guessed.
#include <gtest/gtest.h>

#include <sstream>

#include "tern/base/error.h"
#include "tern/dispatch/ladder.h"
#include "tern/export/export.h"
#include "tern/export/pt2.h"
#include "tern/export/script.h"
#include "tern/io/file.h"
#include "tern/jit/archive.h"
#include "tern/ops.h"
#include "tern/runtime/model_file.h"
#include "tests/support/paths.h"
#include "tests/support/python.h"

namespace tern {
namespace {

using V = Value;

std::string script(const std::string& what, const std::string& folder) {
  return "import runpy, sys, warnings; warnings.simplefilter('ignore'); sys.argv[1:] = ['" + what + "', '" +
         folder + "']; runpy.run_path('" + testing::source_dir() +
         "/tests/export/branching_scripts.py', run_name='__main__')";
}
ExportedProgram convert(const std::string& path, const std::string& name) {
  std::vector<V> examples{V(linspace(-1, 1, 6).reshape({2, 3}))};
  if (name == "EarlyFor") examples.push_back(V(4));
  return from_script(jit::load(path), examples);
}

// torch.while_loop carries tensors of one size.
bool grows(const std::string& name) {
  return name == "Grow" || name == "DynAppend" || (name.starts_with("Append") && name != "AppendOther");
}

class Branching : public ::testing::Test {
 protected:
  // The names of what can be converted and of what cannot, files written.
  static std::pair<std::vector<std::string>, std::vector<std::string>> make(const std::string& python,
                                                                            const std::string& folder) {
    testing::PythonResult r = testing::run_python(python, script("make", folder));
    std::string text = r.output.substr(0, r.output.find('\n'));
    size_t bar = text.find('|');
    EXPECT_NE(bar, std::string::npos) << r.output;
    auto words = [](const std::string& s) {
      std::istringstream in(s);
      std::vector<std::string> all;
      for (std::string w; in >> w;) all.push_back(w);
      return all;
    };
    return {words(text.substr(0, bar)), words(text.substr(bar + 1))};
  }
};

TEST_F(Branching, scripts_give_the_same_numbers_in_pytorch_and_onnx_runtime) {
  TERN_NEEDS_PYTHON(python, "torch, onnxruntime");
  io::TemporaryDir dir;
  for (const std::string& name : make(python, dir.path()).first) {
    std::string path = dir / (name + ".pt");
    ExportedProgram program = convert(path, name);
    save_model(program, dir / (name + ".onnx"));
    if (!grows(name)) {
      save_model(program, dir / (name + ".pt2"));
      // And it comes back.
      for (const V& x : {V(linspace(-1, 1, 6).reshape({2, 3})), V(full({2, 3}, 5.0))}) {
        std::vector<V> in{x};
        if (name == "EarlyFor") in.push_back(V(4));
        NoGrad no_grad;
        V wanted = jit::load(path).forward(in);
        V given = load_model(dir / (name + ".pt2")).module().call(in);
        std::vector<Tensor> a = tree::tensors(wanted), b = tree::tensors(given);
        ASSERT_EQ(a.size(), b.size()) << name;
        for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(allclose(a[i], b[i], 1e-5, 1e-6)) << name;
      }
    }
  }
  std::string output = testing::run_python(python, script("compare", dir.path())).output;
  EXPECT_TRUE(output.ends_with("equal\n")) << output;
}

std::string refusal(const std::string& folder, const std::string& name) {
  try {
    convert(folder + "/" + name + ".pt", name);
  } catch (const Error& e) {
    return e.message();
  }
  return "converted";
}

// Each of these once became a program with the numbers of one path.
TEST_F(Branching, what_a_program_cannot_say_is_refused) {
  TERN_NEEDS_PYTHON(python, "torch");
  io::TemporaryDir dir;
  auto refused = make(python, dir.path()).second;
  auto expect = [&](const std::string& name, std::initializer_list<const char*> parts) {
    std::string text = refusal(dir.path(), name);
    for (const char* p : parts)
      EXPECT_NE(text.find(p), std::string::npos) << name << ": " << p << " in " << text;
    std::erase(refused, name);
  };
  expect("IfFloat", {"1.0 and 2.0", "make it a tensor", "code/__torch__.py:"});
  expect("LoopFloat", {"'s", "1.0 and 2.0", "make it a tensor"});
  expect("IfStr", {"'a' and 'b'"});
  expect("GivenBack", {"one branch gives a Tensor, the other a NoneType", "code/__torch__.py:"});
  expect("AppendOther", {"from outside is changed", "use tensors", "code/__torch__.py:"});
  EXPECT_TRUE(refused.empty()) << refused.front();
}

TEST_F(Branching, a_loop_that_grows_what_it_carries_has_no_pt2_form) {
  TERN_NEEDS_PYTHON(python, "torch");
  io::TemporaryDir dir;
  make(python, dir.path());
  for (const std::string name : {"Grow", "DynAppend", "AppendDecode"}) {
    ExportedProgram program = convert(dir / (name + ".pt"), name);
    try {
      save_model(program, dir / (name + ".pt2"));
      ADD_FAILURE() << name;
    } catch (const Error& e) {
      EXPECT_NE(e.message().find("changes the size of what it carries"), std::string::npos) << e.message();
      EXPECT_NE(e.message().find("code/__torch__.py:"), std::string::npos) << e.message();
    }
  }
}

}  // namespace
}  // namespace tern
