// Graphs as PyTorch prints them: of every method of every scripted file, here and there. Values are numbered
// in the order they come up and constants put in place of their names, for PyTorch's numbers count what its
// compiler made and threw away; places are not compared.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tern/ir/text.h"
#include "tern/jit/archive.h"
#include "tests/support/paths.h"
#include "tests/support/python.h"

namespace tern::jit {
namespace {

// Prints what differs, and how many graphs were compared.
constexpr const char* compare = R"PY(
import difflib, pathlib, re, sys, torch
def plain(text):
    names, constants, lines = {}, {}, []
    def name(match):
        return constants.get(match[0]) or names.setdefault(match[0], f"%{len(names)}")
    for line in text.rstrip().split("\n"):
        line = re.sub(r' # [^"]*:\d+:\d+$', "", line.rstrip())
        constant = re.match(r"\s*(%[\w.]+) : ([^=]+) = prim::Constant(?:\[(?:value|name)=(.*)\])?\(\)$", line)
        if constant:
            constants[constant[1]] = f"<{constant[2]} {constant[3]}>"
            continue
        for defined in re.findall(r"(%[\w.]+) : ", line):
            constants.pop(defined, None)
        lines.append(re.sub(r"%[\w.]+", name, line))
    return lines
scripted, ours = map(pathlib.Path, sys.argv[1:3])
count = 0
for file in sorted(scripted.glob("*.pt")):
    module = torch.jit.load(file)
    for part in (ours / f"{file.stem}.txt").read_text().split("#### ")[1:]:
        place, text = part.split("\n", 1)
        path, method = place.split(" ")
        inner = module
        for name in filter(None, path.split(".")): inner = getattr(inner, name)
        a, b = plain(str(inner._c._get_method(method).graph)), plain(text)
        count += 1
        if a != b: print(file.stem, place, *difflib.unified_diff(a, b, "PyTorch", "Tern", lineterm="", n=1), sep="\n")
print(count, "graphs")
)PY";

void write_graphs(std::ofstream& out, const ScriptModule& module, const std::string& path, size_t& count) {
  for (const std::string& method : module.methods()) {
    out << "#### " << path << " " << method << "\n" << ir::torch_text(module.graph(method));
    ++count;
  }
  for (const auto& [name, child] : module.named_children())
    write_graphs(out, child, path.empty() ? name : path + "." + name, count);
}

TEST(GraphText, of_scripted_modules_is_what_pytorch_prints) {
  TERN_NEEDS_PYTHON(python, "torch");
  std::string scripted = testing::source_dir() + "/tests/jit/scripted";
  io::TemporaryDir dir;
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scripted)) {
    if (entry.path().extension() != ".pt") continue;
    std::ofstream out(dir / (entry.path().stem().string() + ".txt"));
    write_graphs(out, load(entry.path().string()), "", count);
  }
  EXPECT_GE(count, 170u);
  testing::PythonResult r = testing::run_python(python, compare, "'" + scripted + "' '" + dir.path() + "'");
  EXPECT_EQ(r.output, std::to_string(count) + " graphs\n");
}

}  // namespace
}  // namespace tern::jit
