// Graphs as PyTorch prints them, as compiled and inlined: of every method of every scripted file, here and
// there. Values are numbered
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

// Prints what differs.
constexpr const char* compare = R"PY(
import difflib, pathlib, re, sys, torch
def plain(text):
    names, constants, lines = {}, {}, []
    def name(match):
        return constants.get(match[0]) or names.setdefault(match[0], f"%{len(names)}")
    for line in text.rstrip().split("\n"):
        line = re.sub(r' # [^"]*:\d+:\d+$', "", line.rstrip())
        line = re.sub(r"\[warn_id=\d+\]", "", line)  # counts what this process has compiled
        constant = re.match(r"\s*(%[\w.]+) : ([^=]+) = prim::Constant(?:\[(?:value|name)=(.*)\])?\(\)$", line)
        if constant:
            constants[constant[1]] = f"<{constant[2]} {constant[3]}>"
            continue
        for defined in re.findall(r"(%[\w.]+) : ", line):
            constants.pop(defined, None)
        lines.append(re.sub(r"%[\w.]+", name, line))
    return lines
def graphs(module, path=""):
    for method in module._c._method_names():
        graph = module._c._get_method(method).graph
        yield f"{path} {method}", str(graph)
        graph = graph.copy()
        torch._C._jit_pass_inline(graph)
        yield f"{path} {method} inlined", str(graph)
    for name, child in module.named_children():
        yield from graphs(child, f"{path}.{name}" if path else name)
scripted, folder = map(pathlib.Path, sys.argv[1:3])
count = 0
for file in sorted(scripted.glob("*.pt")):
    ours = dict(part.split("\n", 1) for part in (folder / f"{file.stem}.txt").read_text().split("#### ")[1:])
    for place, text in graphs(torch.jit.load(file)):
        a, b = plain(text), plain(ours[place])
        count += 1
        if a != b: print(file.stem, place, *difflib.unified_diff(a, b, "PyTorch", "Tern", lineterm="", n=1), sep="\n")
print("compared" if count >= 340 else f"only {count} graphs")
)PY";

void write_graphs(std::ofstream& out, const ScriptModule& module, const std::string& path) {
  for (const std::string& method : module.methods()) {
    out << "#### " << path << " " << method << "\n" << ir::torch_text(module.graph(method));
    out << "#### " << path << " " << method << " inlined\n" << ir::torch_text(*module.inlined_graph(method));
  }
  for (const auto& [name, child] : module.named_children())
    write_graphs(out, child, path.empty() ? name : path + "." + name);
}

TEST(GraphText, of_scripted_modules_is_what_pytorch_prints) {
  TERN_NEEDS_PYTHON(python, "torch");
  std::string scripted = testing::source_dir() + "/tests/jit/scripted";
  io::TemporaryDir dir;
  for (const auto& entry : std::filesystem::directory_iterator(scripted)) {
    if (entry.path().extension() != ".pt") continue;
    std::ofstream out(dir / (entry.path().stem().string() + ".txt"));
    write_graphs(out, load(entry.path().string()), "");
  }
  testing::PythonResult r = testing::run_python(python, compare, "'" + scripted + "' '" + dir.path() + "'");
  EXPECT_EQ(r.output, "compared\n");
}

}  // namespace
}  // namespace tern::jit
